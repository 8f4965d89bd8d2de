//! A search for the real values, everywhere, while a task runs, when its proxy has died a violent death, and afterwards.

mod crash;
mod needles;
mod places;
mod run;

pub(in crate::credentials) use needles::Needles;
