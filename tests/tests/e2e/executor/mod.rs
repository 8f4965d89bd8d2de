//! The guarantees of the executor on a real engine. Tests of confinement and limits compare with a
//! container that is weaker in only that respect.

mod attacks;
mod behaviour;
mod crowd;
mod errors;
mod files;
pub(crate) mod fixture;
mod host;
mod limits;
mod network;
mod output;
mod parallel;
mod timeouts;
mod workspace;
