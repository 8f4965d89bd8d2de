#![doc = include_str!("../README.md")]

mod agent;
mod error;
mod key;
mod scope;
mod store;
mod unlock;

pub use agent::{Allowed, Refusal, SignEvent, Signer};
pub use error::SshError;
pub use key::{KeyInfo, KeyKind, SigningKeys};
pub use scope::Scope;
pub use store::SshScope;
pub use unlock::{Passphrase, Unlock};
