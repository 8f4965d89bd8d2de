//! Attacks by the end-to-end tests from inside a container; never part of a released program.

mod flood;
mod make;
mod query;
mod reach;

pub(crate) use make::make;
