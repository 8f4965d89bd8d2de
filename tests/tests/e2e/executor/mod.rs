//! The executor: what it promises, on a real engine. Tests of confinement and limits compare with a
//! container that is weaker in just that.

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
