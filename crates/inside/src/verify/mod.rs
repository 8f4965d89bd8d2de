//! The checks of `sandbox verify`: one module per subject, `run` runs them.

mod attempt;
mod child;
mod environment;
mod files;
mod host;
mod kernel;
mod limits;
mod network;
mod observation;
mod proc;
mod rights;
mod run;
mod sockets;
mod works;

pub(crate) use attempt::attempt;
pub(crate) use run::verify;
