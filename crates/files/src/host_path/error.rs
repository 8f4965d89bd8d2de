//! Errors about host paths.

use std::io;
use std::path::{Path, PathBuf};

/// A host path was not opened.
#[derive(Debug, thiserror::Error)]
#[error("failed to open `{}`", path.display())]
pub struct PathError {
    path: PathBuf,
    source: PathProblem,
}

/// The problem with a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// A symbolic link is in a folder that tasks can write, so a task may have created it.
    #[error("`{}` is a symbolic link in a folder that tasks can write, so it is not followed; name its target instead", link.display())]
    Link {
        /// The link.
        link: PathBuf,
    },
    /// It is not a regular file, but, for example, a pipe or a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// The file has a second name, in a folder that tasks can write.
    #[error("it has a second name (a hard link) in a folder that tasks can write, so it is not written to")]
    HardLink,
    /// The file is too large for its purpose.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The system refused, or the path does not exist.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl PathError {
    pub(super) fn new(path: &Path, problem: impl Into<PathProblem>) -> Self {
        Self { path: path.to_owned(), source: problem.into() }
    }

    /// The path as the caller named it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The problem.
    #[must_use]
    pub fn problem(&self) -> &PathProblem {
        &self.source
    }

    /// Whether the path does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(&self.source, PathProblem::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<PathError> for io::Error {
    fn from(error: PathError) -> Self {
        let kind = match &error.source {
            PathProblem::Io(source) => source.kind(),
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}
