//! Errors about repositories.

use std::io;
use std::path::{Path, PathBuf};

/// A repository could not be created, served or synchronized.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The name is not valid for a repository.
    #[error(
        "`{}` is not a valid repository name: expected 1 to 64 letters, digits, `.`, `_` and `-`, the \
         first a letter or digit, without `.git`",
        name.escape_debug()
    )]
    InvalidName {
        /// The beginning of the name.
        name: String,
    },
    /// The upstream is not an address to fetch from.
    #[error("failed to fetch from `{}`: {problem}", upstream.escape_debug())]
    InvalidUpstream {
        /// The address, without a possible password.
        upstream: String,
        /// The problem.
        problem: &'static str,
    },
    /// The repository does not exist.
    #[error("there is no repository `{name}`; create it with `sandbox gate init {name}`")]
    NoRepository {
        /// Its name.
        name: String,
    },
    /// The repository exists with another upstream.
    #[error("`{name}` already exists, with {}", there.as_deref().map_or("no upstream".to_owned(), |url| format!("the upstream {url}")))]
    OtherUpstream {
        /// Its name.
        name: String,
        /// Its upstream.
        there: Option<String>,
    },
    /// The repository has no upstream to synchronize with.
    #[error("`{name}` has no upstream")]
    NoUpstream {
        /// Its name.
        name: String,
    },
    /// git failed.
    #[error("git failed to {operation}: {message}")]
    Git {
        /// The failed operation.
        operation: &'static str,
        /// Git's message, without control characters.
        message: String,
    },
    /// The file system refused, or git could not be started.
    #[error("failed to {operation} `{}`", path.display())]
    Files {
        /// The failed operation.
        operation: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl GateError {
    pub(crate) fn files(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Files { operation, path, source }
    }
}
