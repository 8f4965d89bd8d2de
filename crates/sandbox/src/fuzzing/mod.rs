//! What the fuzzers run: one function for each kind of hostile bytes, with the properties that must
//! hold whatever they are.
//!
//! Only there with the feature `fuzzing`, and in unit tests, which run every seed. A property that
//! does not hold is a panic. The programs around these functions lie in the folder `fuzz` of the
//! repository.

#[cfg(test)]
mod seeds;

pub use crate::egress::proxy_records;
pub use crate::executor::supervisor_frames;
