//! A search for the real values, everywhere, while a task runs, when its proxy has died a violent
//! death, when proxy and command panic, when a program lets every library trace, and afterwards.

mod crash;
mod needles;
mod panic;
mod places;
mod run;
mod trace;

pub(in crate::credentials) use needles::Needles;
pub(in crate::credentials) use places::Places;
