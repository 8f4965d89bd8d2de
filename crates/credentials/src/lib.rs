#![doc = include_str!("../README.md")]
//!
//! # Surrogates
//!
//! A surrogate keeps a well-known prefix of tokens (`ghp_`, `sk-ant-api03-`, `AKIA` and others),
//! and all ASCII characters except letters and digits. Each letter and digit becomes a random one
//! of its class: upper case, lower case, digit, or hexadecimal digit if all letters are hexadecimal
//! and of one case; a non-ASCII character becomes any of them. With fewer than 16 random
//! characters, letters and digits are appended up to 16; only the parts of an access key keep their
//! length. Session tokens become 512 letters and digits. No surrogate is equal to a real value of
//! the task or to another of its surrogates.
//!
//! The kept characters are known to the container. A value that its surrogate would contain
//! entirely, such as a password of punctuation alone, is an error.
//!
//! # Invariants
//!
//! - A real value is stored in a [`SecretValue`] only, which is zeroed on drop and cannot be shown
//!   by accident.
//! - No error, `Debug` or `Display` of this crate shows a real value, or any part of a malformed
//!   replacement map.
//! - Only the proxy can read the content of a [`SecretReplacements`], and only its control channel
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
