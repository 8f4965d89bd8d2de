//! The fuzz targets: one function for each kind of hostile bytes, which checks properties that must
//! hold for any input.
//!
//! Available only with the feature `fuzzing`, and in unit tests, which run every seed. A violated
//! property is a panic. The programs that call these functions are in the folder `fuzz` of the
//! repository.

#[cfg(test)]
mod seeds;

pub use crate::egress::proxy_records;
pub use crate::executor::supervisor_frames;
