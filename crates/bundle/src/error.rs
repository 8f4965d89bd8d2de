//! The errors of reading and of packing.

use std::io;
use std::path::{Path, PathBuf};

/// An archive or a record is not complete and unchanged, or cannot be read or unpacked.
#[derive(Debug, thiserror::Error)]
#[error("`{at}` {problem}")]
pub struct InvalidBundle {
    at: String,
    problem: String,
    source: Option<io::Error>,
}

impl InvalidBundle {
    pub(crate) fn new(at: &str, problem: impl Into<String>) -> Self {
        Self { at: at.to_owned(), problem: problem.into(), source: None }
    }

    pub(crate) fn reading(at: &str) -> impl Fn(io::Error) -> Self {
        move |error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::new(at, "is cut off"),
            _ => Self { source: Some(error), ..Self::new(at, "cannot be copied") },
        }
    }

    pub(crate) fn unpacking(at: &str) -> impl Fn(io::Error) -> Self {
        move |error| Self { source: Some(error), ..Self::new(at, "cannot be unpacked") }
    }
}

/// An entry of a tree, or the bundle itself, cannot be packed.
#[derive(Debug, thiserror::Error)]
#[error("failed to pack `{}`: {problem}", path.display().to_string().escape_debug())]
pub struct PackError {
    path: PathBuf,
    problem: String,
    source: Option<io::Error>,
}

impl PackError {
    pub(crate) fn new(path: &Path, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: problem.into(), source: None }
    }

    pub(crate) fn io(path: &Path, problem: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self { source: Some(error), ..Self::new(path, problem) }
    }
}
