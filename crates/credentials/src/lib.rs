//! Credentials that never enter a container.
//!
//! A program in a container that calls an API needs a credential, and what has a credential can leak it. So the container gets a
//! **surrogate**: a random text of the same form, worth nothing anywhere. All of its traffic goes through a proxy outside of it, and the
//! proxy puts the real value in the surrogate's place, in requests to the hosts the credential is for, in the headers that carry it, and
//! nowhere else. This crate makes surrogates and says what goes where; it does no I/O, and what the proxy does with it is the proxy's.
//!
//! ```
//! use allowlist::HostPattern;
//! use sandbox_credentials::{
//!     AwsAccessKey, MaskedSecret, Preset, SecretValue, SecretVariable, SigningCredential, prepare_secrets,
//! };
//!
//! // A secret that requests carry: a variable, its value, and where it goes.
//! let token = MaskedSecret::new(
//!     "GH_TOKEN",
//!     SecretValue::new("ghp_R8sPdn4zmLx2Vq7JtWc9KbYf3HgEu6AoT1iQ"),
//!     Preset::Github.injection(),
//! );
//! // A key that requests are signed with: it never travels, so the proxy signs again.
//! let key = SigningCredential::aws(AwsAccessKey {
//!     name: "AWS".to_owned(),
//!     access_key_id: SecretVariable::new("AWS_ACCESS_KEY_ID", SecretValue::new("AKIAIOSFODNN7EXAMPLE")),
//!     secret_access_key: SecretVariable::new(
//!         "AWS_SECRET_ACCESS_KEY",
//!         SecretValue::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
//!     ),
//!     session_token: None,
//!     scopes: vec![HostPattern::new("*.eu-west-1.amazonaws.com")?],
//! });
//! let prepared = prepare_secrets(&[token], &[key])?;
//!
//! // For the container: surrogates.
//! let surrogate = &prepared.env_vars()["GH_TOKEN"];
//! assert!(surrogate.starts_with("ghp_") && surrogate.len() == 40);
//! assert_ne!(surrogate, "ghp_R8sPdn4zmLx2Vq7JtWc9KbYf3HgEu6AoT1iQ");
//!
//! // For the proxy: the way back, which is opaque to everything else.
//! assert_eq!(format!("{:?}", prepared.replacements()), "SecretReplacements(2 entries)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Surrogates
//!
//! A beginning by which tokens are known (`ghp_`, `sk-ant-api03-`, `AKIA` and others) stays, so do all characters of ASCII that are no letter
//! or digit. Each letter and digit becomes a random one of its class: upper case, lower case, digit, or hexadecimal digit where all
//! letters are such and of one case; a character beyond ASCII becomes any of them. With fewer than 16 random characters, letters and digits are appended until there are 16; only
//! the parts of an access key keep their length. Session tokens become 512 letters and digits. No surrogate is equal to a
//! real value of the task or to another of its surrogates.
//!
//! What stays is known to the container. A value that would stand in its surrogate whole, as a password of punctuation alone would, is an
//! error.
//!
//! # Invariants
//!
//! - A real value is held in a [`SecretValue`] only, which is wiped when dropped and cannot be shown by accident.
//! - No error, `Debug` or `Display` of this crate shows a real value, nor anything of a replacement map that cannot be read.
//! - Only the proxy can read what a [`SecretReplacements`] holds, and only its control channel carries it.

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
pub use prepare::{PreparedSecrets, prepare_secrets};
pub use preset::Preset;
pub use replacement::SecretReplacements;
pub use secret_value::SecretValue;
pub use signing_credential::{AwsAccessKey, SecretVariable, SigningCredential};
