//! A search for the real values, everywhere, while a task runs, when its proxy has died a violent death, when
//! proxy and command panic, and afterwards.

mod crash;
mod needles;
mod panic;
mod places;
mod run;

pub(in crate::credentials) use needles::Needles;
