//! A search for the real values everywhere: while a task runs, after a crash of its proxy, after
//! panics of proxy and command, with tracing of every library, and afterwards.

mod crash;
mod needles;
mod panic;
mod places;
mod run;
mod trace;

pub(crate) use needles::Needles;
pub(in crate::credentials) use places::Places;
