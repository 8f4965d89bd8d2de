//! HTTP on the client's side: reading what is asked, refusing what must not be, and passing on what
//! may.
//!
//! [`serve`] runs one connection. Each request goes through framing, identity and the gate, in this
//! order; what comes out of the gate gets its credentials in `outbound`, and only that reaches
//! `forward` or `upgrade`.

mod activity;
mod answer;
mod body;
mod chunked;
mod client;
mod connection;
mod cost;
mod deny;
mod exchange;
mod forward;
mod framing;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed_frames;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed_head;
mod head;
mod hold;
mod identity;
mod inspect;
mod outbound;
mod outgoing;
mod refusal;
mod resets;
mod service;
mod shared;
mod upgrade;

pub(crate) use client::Client;
pub(crate) use connection::{ConnectionEnd, serve};
pub(crate) use shared::Shared;
