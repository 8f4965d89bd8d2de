//! What can go wrong with a work tree.

use std::io;
use std::path::{Path, PathBuf};

/// A work tree could not be read, copied or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The file system refused.
    #[error("failed to {operation} `{}`", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A task, or another command, works with this copy just now.
    #[error("the copy of `{}` is in use; wait for the run to end", tree.display())]
    Busy {
        /// The work tree.
        tree: PathBuf,
    },
    /// The host changed what the task changed too. Nothing was applied.
    #[error("{} of the changed paths changed on the host too since the task began, so nothing was applied: {}", paths.len(), shown(paths))]
    Conflict {
        /// Relative to the work tree.
        paths: Vec<PathBuf>,
    },
    /// What the engine's overlay wrote is not understood, or what was kept about it cannot be read. Nothing was applied.
    #[error("the copy in `{}` cannot be read: {problem}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A step failed, and what was done before it was undone.
    #[error("failed to apply the change of `{}`; everything is as it was before", path.display())]
    RolledBack {
        /// Relative to the work tree.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A step failed, and undoing what was done before it failed too. What was replaced is kept.
    #[error("failed to undo the change of `{}`; what it replaced is in `{}`", path.display(), kept.display())]
    HalfDone {
        /// Relative to the work tree.
        path: PathBuf,
        /// Where the former content is.
        kept: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl WorkspaceError {
    pub(super) fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn unreadable(path: &Path, problem: impl Into<String>) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}

fn shown(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths
        .iter()
        .take(20)
        .map(|path| format!("`{}`", path.display()))
        .collect();
    let more = if paths.len() > names.len() { ", …" } else { "" };
    names.join(", ") + more
}
