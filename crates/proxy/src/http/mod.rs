//! HTTP on the client's side: reading what is asked, refusing what must not be, and passing on what may.
//!
//! [`serve`] runs one connection. Each request goes through framing, identity and the gate, in this order; what comes out of
//! the gate gets its credentials in `outbound`, and only that reaches `forward` or `upgrade`.

mod body;
mod buffer;
mod chunk_signing;
mod chunked;
mod connection;
mod deny;
mod exchange;
mod forward;
mod framing;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed_frames;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed_head;
mod head;
mod headers;
mod identity;
mod outbound;
mod resets;
mod service;
mod upgrade;
mod upload;

pub(crate) use buffer::ROOM;
pub(crate) use connection::{Client, ConnectionEnd, serve};
pub(crate) use headers::{concerns_one_connection, is_same};
pub(crate) use upload::Upload;
