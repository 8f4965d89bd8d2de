#![doc = include_str!("../README.md")]
//!
//! # Surrogates
//!
//! A beginning by which tokens are known (`ghp_`, `sk-ant-api03-`, `AKIA` and others) stays, so do
//! all characters of ASCII that are no letter or digit. Each letter and digit becomes a random one
//! of its class: upper case, lower case, digit, or hexadecimal digit where all letters are such and
//! of one case; a character beyond ASCII becomes any of them. With fewer than 16 random characters,
//! letters and digits are appended until there are 16; only the parts of an access key keep their
//! length. Session tokens become 512 letters and digits. No surrogate is equal to a real value of
//! the task or to another of its surrogates.
//!
//! What stays is known to the container. A value that would stand in its surrogate whole, as a
//! password of punctuation alone would, is an error.
//!
//! # Invariants
//!
//! - A real value is held in a [`SecretValue`] only, which is wiped when dropped and cannot be
//!   shown by accident.
//! - No error, `Debug` or `Display` of this crate shows a real value, nor anything of a replacement
//!   map that cannot be read.
//! - Only the proxy can read what a [`SecretReplacements`] holds, and only its control channel
//!   carries it.

mod check;
mod error;
mod header_pattern;
mod injection;
mod limits;
mod masked_secret;
mod prepare;
mod preset;
mod replacement;
mod secret_value;
mod signing_credential;
mod surrogate;
#[doc(hidden)]
pub mod wire;

pub use error::SecretError;
pub use header_pattern::HeaderPattern;
pub use injection::Injection;
pub use masked_secret::MaskedSecret;
pub use prepare::{PreparedSecrets, decoy, prepare_secrets};
pub use preset::Preset;
pub use replacement::{GitHost, SecretReplacements};
pub use secret_value::SecretValue;
pub use signing_credential::{AwsAccessKey, SecretVariable, SigningCredential};
