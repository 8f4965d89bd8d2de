//! What can go wrong with a work tree.

use std::io;
use std::path::{Path, PathBuf};

/// A work tree could not be read, copied or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The file system refused.
    #[error("failed to {operation} `{}`", sanitized(path))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A task, or another command, works with this copy just now.
    #[error("the copy of `{}` is in use; wait for the run to end", sanitized(tree))]
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
    #[error("the copy in `{}` cannot be read: {problem}", sanitized(path))]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// What a task did in a repository cannot be imported. Nothing was applied.
    #[error("failed to {operation} the repository `{}`", sanitized(path))]
    Repository {
        /// What was tried.
        operation: &'static str,
        /// Its folder, most often relative to the work tree.
        path: PathBuf,
        /// Why not.
        source: Box<sandbox_host_git::Error>,
    },
    /// What a task did in a repository is imported in part only. What is left of it, and all else, is in the copy: the next command goes on.
    #[error(
        "failed to import all of what the task did in the repository `{}`; the next command goes on with it",
        sanitized(path)
    )]
    Unfinished {
        /// Its folder, relative to the work tree.
        path: PathBuf,
        /// Why.
        source: Box<sandbox_host_git::Error>,
    },
    /// There are more repositories than a task can have views of, or read-only.
    #[error(
        "`{}` has {count} git repositories, and a task can be given {most}: mount a folder of it that has fewer, or work on a copy",
        sanitized(tree)
    )]
    TooManyRepositories {
        /// The work tree.
        tree: PathBuf,
        /// How many it has.
        count: usize,
        /// How many it may have.
        most: usize,
    },
    /// No task changed this setting of git, or it was taken before. Nothing was applied.
    #[error("no setting `{}` waits", key.escape_debug())]
    NoSetting {
        /// Its name, as the caller gave it.
        key: String,
    },
    /// A step failed, and what was done before it was undone.
    #[error("failed to apply the change of `{}`; everything is as it was before", sanitized(path))]
    RolledBack {
        /// Relative to the work tree.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A step failed, and undoing what was done before it failed too, or it was changed since. What was replaced is kept.
    #[error("failed to undo the change of `{}`{}", sanitized(path), whereabouts(kept.as_deref()))]
    HalfDone {
        /// Relative to the work tree.
        path: PathBuf,
        /// Where the former content is; `None` where there was none.
        kept: Option<PathBuf>,
        /// Why.
        source: io::Error,
    },
}

impl WorkspaceError {
    pub(super) fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_owned(), source }
    }

    pub(super) fn repository(operation: &'static str, path: &Path, source: sandbox_host_git::Error) -> Self {
        Self::Repository { operation, path: path.to_owned(), source: Box::new(source) }
    }

    pub(super) fn unreadable(path: &Path, problem: impl Into<String>) -> Self {
        Self::Unreadable { path: path.to_owned(), problem: problem.into() }
    }
}

fn whereabouts(kept: Option<&Path>) -> String {
    kept.map(|kept| format!("; what it replaced is in `{}`", sanitized(kept))).unwrap_or_default()
}

fn shown(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().take(20).map(|path| format!("`{}`", sanitized(path))).collect();
    let more = if paths.len() > names.len() { ", …" } else { "" };
    names.join(", ") + more
}

/// A path as a message may show it: names in a work tree are the task's, and forge neither lines nor what a terminal does.
#[must_use]
pub fn sanitized(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_task_made_up_forges_nothing() {
        let path = || PathBuf::from("a\nerror: \u{1b}[2Jb\u{202e}é");
        let source = || io::Error::from(io::ErrorKind::NotFound);
        let paths = vec![path()];
        let errors = [
            WorkspaceError::new("read", &path(), source()),
            WorkspaceError::Busy { tree: path() },
            WorkspaceError::Conflict { paths },
            WorkspaceError::unreadable(&path(), "x"),
            WorkspaceError::RolledBack { path: path(), source: source() },
            WorkspaceError::HalfDone { path: path(), kept: Some(path()), source: source() },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.contains(r"a\nerror: \u{1b}[2Jb\u{202e}é"), "{text}");
            assert!(!text.contains(char::is_control), "{text}");
        }
    }
}
