#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - An attribute of an entry comes from a field of `entry.rs`'s table, and is a number, a flag, or a
//!   word of ASCII letters, digits and `.-_:[]` that is at most 253 bytes long. A field that the
//!   network log gains is not exported.
//! - Nothing of what a task wrote is the name of anything.

mod context;
mod end;
mod entry;
mod message;
mod metrics;
mod telemetry;

pub use context::TraceContext;
pub use end::{AgentEnd, RunEnd};
pub use message::{Message, Resource, Signal, rejected};
pub use telemetry::Telemetry;
