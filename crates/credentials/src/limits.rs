//! Limits on the input of this crate.

/// Maximum length of a secret in bytes. Servers refuse much shorter header lines.
pub(crate) const VALUE_LIMIT: usize = 32 * 1024;

/// Maximum length of a header pattern in bytes.
pub(crate) const HEADER_LIMIT: usize = 256;
