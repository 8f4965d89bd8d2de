//! Services of the host: the list of them, and connections to them.

mod relay;
mod table;

pub(crate) use relay::{RelayError, connect, probe};
pub(crate) use table::Services;
