//! Operations on paths for which a missing file is not an error.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Treats the removal of a missing file as done.
///
/// # Errors
///
/// Every other error of `removed`.
pub fn or_absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Creates a folder and its missing parents with the permissions `mode`.
///
/// # Errors
///
/// If the file system refuses.
pub fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Reads a file; `None` if it does not exist.
///
/// # Errors
///
/// If the file system refuses.
pub fn read_if_present(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
