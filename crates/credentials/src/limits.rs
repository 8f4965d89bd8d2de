//! Bounds on what this crate takes in.

/// The longest secret in bytes. Servers refuse header lines far shorter than this.
pub(crate) const VALUE_LIMIT: usize = 32 * 1024;

/// The longest header pattern in bytes.
pub(crate) const HEADER_LIMIT: usize = 256;
