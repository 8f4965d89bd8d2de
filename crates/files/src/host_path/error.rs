//! Why a path of the host was not opened.

use std::io;
use std::path::{Path, PathBuf};

/// A path of the host was not opened.
#[derive(Debug, thiserror::Error)]
#[error("failed to open `{}`", path.display())]
pub struct PathError {
    path: PathBuf,
    source: PathProblem,
}

/// What is wrong with a path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// A symbolic link lies in a folder that tasks can write, so a task may have made it.
    #[error("`{}` is a symbolic link in a folder that tasks can write, so it is not followed; name what it leads to", link.display())]
    Link {
        /// The link.
        link: PathBuf,
    },
    /// Something else than a regular file, such as a pipe or a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// A file that has a second name, in a folder that tasks can write.
    #[error("it has a second name (a hard link) in a folder that tasks can write, so it is not written to")]
    HardLink,
    /// The file is longer than what it is for can be.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The system refused, or nothing is there.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl PathError {
    pub(super) fn new(path: &Path, problem: impl Into<PathProblem>) -> Self {
        Self { path: path.to_owned(), source: problem.into() }
    }

    /// The path that was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with it.
    #[must_use]
    pub fn problem(&self) -> &PathProblem {
        &self.source
    }

    /// Whether nothing is there.
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
