//! The lock file of the fuzz targets, which are a workspace of their own: whoever changes a
//! dependency of ours changes that too.

use super::source::Finding;
use crate::cargo::cargo;
use crate::process;

/// Asks cargo whether it would change the file.
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
