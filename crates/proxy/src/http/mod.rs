//! The client's side of HTTP: reads requests, refuses those that must not pass, and forwards those
//! that may.
//!
//! [`serve`] runs one connection. Each request goes through framing, identity and the gate, in this
//! order. A request that the gate permits gets its credentials in `outbound`, and only such
//! requests reach `forward` or `upgrade`.

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
