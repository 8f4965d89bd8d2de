//! Errors of an import. An oddity in a task's files is not an error: it is not imported, and the
//! report lists it.

use std::io;
use std::path::{Path, PathBuf};

/// The import is missing or incomplete: another [`Import`](crate::Import) of the same view
/// continues where this one ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A host file is not accessible.
    #[error("failed to {operation} `{}`", path.display())]
    Files {
        /// The failed operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The host's git refused.
    #[error("git failed to {operation}: {message}")]
    Git {
        /// The operation that git refused.
        operation: &'static str,
        /// Git's message.
        message: String,
    },
    /// Git reads the task's index entries differently. The index is not imported.
    #[error("git reads the task's index entries differently")]
    OddIndex,
    /// The task's repository exceeds one of the caller's limits.
    #[error("the task's repository has more than {limit} {what}")]
    TooMuch {
        /// The resource that exceeds its limit.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The import took longer than the caller allows.
    #[error("timed out trying to {operation}")]
    TooLong {
        /// The operation that took too long.
        operation: &'static str,
    },
    /// This kind of repository is not supported.
    #[error("the repository `{}` {problem}", path.display())]
    Unsupported {
        /// The path of the repository.
        path: PathBuf,
        /// The unsupported property.
        problem: &'static str,
    },
    /// The import failed after it had written a part.
    #[error("failed to finish the import")]
    Unfinished {
        /// The cause.
        source: Box<Self>,
    },
    /// Another git process has locked the index.
    #[error("`{}` is there: another git is at work, or one was killed; remove it then", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The host changed the same parts during each attempt.
    #[error("the repository was changed {attempts} times while the import was written")]
    Moving {
        /// The number of attempts.
        attempts: usize,
    },
}

impl Error {
    pub(crate) fn files(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Files { operation, path, source }
    }
}
