//! The agent: it speaks the protocol of `ssh-agent`, and decides which signatures to make.

mod connection;
mod data;
mod event;
mod request;
mod signer;
#[cfg(test)]
mod tests;

pub use event::{Refusal, SignEvent};
pub use signer::{Allowed, Signer};
