//! The lock file of the fuzz targets, which are a separate workspace: a change of our dependencies
//! must update it too.

use super::source::Finding;
use crate::cargo::cargo;
use crate::process;

/// Checks with cargo whether the file is up to date.
pub(crate) fn check_locks() -> Vec<Finding> {
    let manifest = "fuzz/Cargo.toml";
    let arguments = ["metadata", "--format-version=1", "--locked", "--manifest-path", manifest];
    match process::output(&mut cargo(arguments)) {
        Ok(_) => Vec::new(),
        Err(error) => vec![Finding::whole(
            "fuzz/Cargo.lock",
            format!("is out of date ({error:#}); run `cargo update --workspace --manifest-path {manifest}`"),
        )],
    }
}
