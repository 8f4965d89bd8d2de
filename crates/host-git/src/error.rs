//! Why an import did not happen. Something merely odd in a task's files is not an error: it stays behind, and the report says so.

use std::io;
use std::path::{Path, PathBuf};

/// Nothing was imported, or not everything: another [`Import`](crate::Import) of the same view goes on where this one ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the host could not be reached.
    #[error("failed to {operation} `{}`", path.display())]
    Files {
        /// What was to be done.
        operation: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it was not.
        source: io::Error,
    },
    /// The host's git refused.
    #[error("git could not {operation}: {message}")]
    Git {
        /// What it was to do.
        operation: &'static str,
        /// What it said.
        message: String,
    },
    /// Git makes another index of a task's entries. It stays behind.
    #[error("git makes another index of the task's entries")]
    OddIndex,
    /// What the task left is larger than the caller allows.
    #[error("the task's repository has more than {limit} {what}")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much may be.
        limit: u64,
    },
    /// It took longer than the caller allows.
    #[error("it took too long to {operation}")]
    TooLong {
        /// What took too long.
        operation: &'static str,
    },
    /// A repository of a kind that is not understood.
    #[error("the repository `{}` {problem}", path.display())]
    Unsupported {
        /// Whose.
        path: PathBuf,
        /// What is not understood.
        problem: &'static str,
    },
    /// A part of it was written already.
    #[error("the import could not be finished")]
    Unfinished {
        /// Why.
        source: Box<Self>,
    },
    /// Another git locks the index.
    #[error("`{}` is there: another git is at work, or one was killed; remove it then", path.display())]
    Locked {
        /// The file that locks it.
        path: PathBuf,
    },
    /// The host changed the same things again and again.
    #[error("the repository was changed {attempts} times while the import was written")]
    Moving {
        /// How often it was tried.
        attempts: usize,
    },
}

impl Error {
    pub(crate) fn files(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Files { operation, path, source }
    }
}
