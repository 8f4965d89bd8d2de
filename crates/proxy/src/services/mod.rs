//! Services of the host: which there are, and the way to them.

mod relay;
mod table;

pub(crate) use relay::{RelayError, connect, probe};
pub(crate) use table::Services;
