//! What is done to files by their paths, where a missing file is not an error.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Treats a removal that finds nothing as done.
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

/// Makes a folder, and those above it that are missing, with the permissions `mode`.
///
/// # Errors
///
/// When the file system refuses.
pub fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// Reads a file; `None` when there is none.
///
/// # Errors
///
/// When the file system refuses.
pub fn read_if_present(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
