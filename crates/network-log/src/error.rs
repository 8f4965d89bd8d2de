//! The error of a network log.

use std::io;
use std::path::PathBuf;

/// A file of a network log cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("failed to {operation} `{}`", path.display())]
pub struct LogError {
    /// The failed operation, such as `write to`.
    pub operation: &'static str,
    /// The file, or its folder.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

impl LogError {
    /// For `map_err`: an I/O error with the operation and the file.
    pub(crate) fn file(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self { operation, path, source }
    }
}
