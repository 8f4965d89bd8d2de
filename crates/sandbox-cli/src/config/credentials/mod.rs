//! The parts `masked_secrets`, `signing_credentials` and `logins` of `sandbox.yaml`: their
//! documents, their evaluation, and warnings about probable mistakes.

mod advice;
mod bundled;
mod document;
mod entry;
mod list;
mod login;
mod prepare;
mod read;
mod source;

#[cfg(test)]
mod tests;

pub(crate) use advice::Advice;
pub(super) use document::{MaskedDocument, SigningDocument};
pub(crate) use entry::CredentialsFile;
pub(super) use entry::SESSION_TOKEN;
pub(super) use login::LoginDocument;
pub(crate) use login::LoginEntry;
pub(crate) use read::Renewable;
pub(super) use read::{trusted_command, trusted_program};
pub(super) use source::Kept;
pub(crate) use source::Source;
