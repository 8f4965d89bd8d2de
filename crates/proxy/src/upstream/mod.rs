//! Connections to upstreams: resolve, guard, connect, verify, and keep connections for the next
//! request.

mod connect;
mod error;
mod interim;
mod pool;
mod raw_line;
mod sender;

pub(crate) use connect::{Destination, Dialer};
pub(crate) use error::{Failure, UpstreamError};
pub(crate) use pool::{Lease, Pool};
pub(crate) use raw_line::RawLine;
