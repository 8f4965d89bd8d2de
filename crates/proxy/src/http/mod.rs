//! HTTP on the client's side: reading what is asked, refusing what must not be, and passing on what may.
//!
//! [`serve`] runs one connection. Each request goes through framing, identity and the gate, in this order, and only what comes out
//! of the gate reaches `forward` or `upgrade`.

mod body;
mod chunked;
mod connection;
mod deny;
mod exchange;
mod forward;
mod framing;
mod head;
mod headers;
mod identity;
mod service;
mod upgrade;

pub(crate) use body::Upload;
pub(crate) use connection::{Client, ConnectionEnd, serve};
