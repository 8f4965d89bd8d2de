//! The parts `masked_secrets` and `signing_credentials` of `sandbox.yaml`: what they may say, what they come to, and what is said about
//! what was probably not meant.

mod advice;
mod document;
mod entry;
mod prepare;
mod read;
mod source;

#[cfg(test)]
mod tests;

pub(crate) use advice::Advice;
pub(super) use document::{MaskedDocument, SigningDocument};
pub(crate) use entry::CredentialsFile;
pub(super) use entry::SESSION_TOKEN;
pub(crate) use read::Renewable;
pub(super) use read::trusted_command;
pub(super) use source::Kept;
pub(crate) use source::Source;
