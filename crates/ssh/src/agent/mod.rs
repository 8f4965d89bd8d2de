//! The agent: the protocol of `ssh-agent` on one side, what may be signed on the other.

mod connection;
mod data;
mod event;
mod request;
mod signer;
#[cfg(test)]
mod tests;

pub use event::{Refusal, SignEvent};
pub use signer::{Allowed, Signer};
