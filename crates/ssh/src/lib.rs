#![doc = include_str!("../README.md")]

mod agent;
mod error;
mod key;
mod scope;
mod secret_source;
mod store;
mod unlock;

pub use agent::{Allowed, Refusal, SignEvent, Signer};
pub use error::SshError;
pub use key::{KeyInfo, KeyKind, SigningKeys};
pub use scope::Scope;
pub use secret_source::{HostCommand, SecretSource, SecretSourceError};
pub use store::SshScope;
pub use unlock::{Passphrase, Unlock};
