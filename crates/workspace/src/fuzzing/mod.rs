//! The fuzzers' functions: one for each kind of hostile bytes, with the properties that must hold
//! for any bytes.
//!
//! Compiled only with the feature `fuzzing`, and in unit tests, which run every seed. A property
//! that does not hold is a panic. The programs around these functions are in the folder `fuzz` of
//! the repository.

mod fixture;
mod script;

#[cfg(test)]
mod seeds;

pub(crate) use self::fixture::{Fixture, Found, found};
pub(crate) use self::script::Script;

pub use crate::copy::workspace_copy;
pub use crate::fuzzed::git_files;
