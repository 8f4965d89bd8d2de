//! What can go wrong with repositories.

use std::io;
use std::path::{Path, PathBuf};

/// Why a repository could not be made, served or brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The name is not one that a repository can have.
    #[error(
        "`{}` is not the name of a repository: 1 to 64 letters, digits, `.`, `_` and `-`, the first a letter or digit, without `.git`",
        name.escape_debug()
    )]
    InvalidName {
        /// Its beginning.
        name: String,
    },
    /// The upstream is not an address to fetch from.
    #[error("cannot fetch from `{}`: {problem}", upstream.escape_debug())]
    InvalidUpstream {
        /// The address, without what could be a password.
        upstream: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There is no such repository.
    #[error("there is no repository `{name}`; make it with `sandbox gate init {name}`")]
    NoRepository {
        /// Its name.
        name: String,
    },
    /// The repository is there, and has another upstream.
    #[error("`{name}` is there already, with {}", there.as_deref().map_or("no upstream".to_owned(), |url| format!("the upstream {url}")))]
    OtherUpstream {
        /// Its name.
        name: String,
        /// Its upstream.
        there: Option<String>,
    },
    /// The repository has nothing to be brought up to date with.
    #[error("`{name}` has no upstream")]
    NoUpstream {
        /// Its name.
        name: String,
    },
    /// git failed.
    #[error("git could not {operation}: {message}")]
    Git {
        /// What it should do.
        operation: &'static str,
        /// What it printed, without control characters.
        message: String,
    },
    /// The file system refused, or git could not be started.
    #[error("failed to {operation} `{}`", path.display())]
    Files {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl GateError {
    pub(crate) fn files(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Files { operation, path, source }
    }
}
