//! Storms: what a task and its engine are put through, and how what is left is counted.

pub(crate) mod engine;
mod faulty;
mod field;
mod inventory;
pub(crate) mod kill;
pub(crate) mod load;
mod report;

pub(crate) use field::Field;
