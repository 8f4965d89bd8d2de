//! Attacks that the end-to-end tests make from inside a container, and never in a program that is
//! shipped.

mod flood;
mod make;
mod query;
mod reach;

pub(crate) use make::make;
