//! Storms: stress tests of tasks and their engine, with an inventory of the remaining objects.

pub(crate) mod engine;
mod faulty;
mod field;
mod inventory;
pub(crate) mod kill;
pub(crate) mod load;
mod report;

pub(crate) use field::Field;
