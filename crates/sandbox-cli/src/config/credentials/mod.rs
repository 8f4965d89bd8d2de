//! The parts `masked_secrets` and `signing_credentials` of `sandbox.yaml`: what they may say, what they come to, and what is said about
//! what was probably not meant.

mod advice;
mod entry;
mod prepare;
mod reader;

#[cfg(test)]
mod tests;

pub(crate) use advice::Advice;
pub(crate) use entry::CredentialsFile;
pub(super) use entry::SESSION_TOKEN;
#[cfg(test)]
pub(super) use reader::{MASKED_KEYS, SIGNING_KEYS};
pub(super) use reader::{SIGNING_PRESET, SIGNING_TYPE, masked_secrets, signing_credentials};
