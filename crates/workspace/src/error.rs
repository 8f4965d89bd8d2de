//! Errors about work trees.

use std::io;
use std::path::{Path, PathBuf};

/// A work tree could not be read, copied or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The file system refused.
    #[error("failed to {operation} `{}`", sanitized(path))]
    Io {
        /// The failed operation.
        operation: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A task or another command is using this copy.
    #[error("the copy of `{}` is in use; wait for the run to end", sanitized(tree))]
    Busy {
        /// The work tree.
        tree: PathBuf,
    },
    /// The host changed some of the paths that the task changed. Nothing was applied.
    #[error("{} of the changed paths changed on the host too since the task began, so nothing was applied: {}", paths.len(), shown(paths))]
    Conflict {
        /// Relative to the work tree.
        paths: Vec<PathBuf>,
    },
    /// The overlay's files or the copy's records cannot be interpreted. Nothing was applied.
    #[error("the copy in `{}` cannot be read: {problem}", sanitized(path))]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A task's changes in a repository cannot be imported. Nothing was applied.
    #[error("failed to {operation} the repository `{}`", sanitized(path))]
    Repository {
        /// The failed operation.
        operation: &'static str,
        /// Its folder, usually relative to the work tree.
        path: PathBuf,
        /// The cause.
        source: Box<sandbox_host_git::Error>,
    },
    /// A task's changes in a repository were imported only in part. The rest, and all other
    /// changes, are in the copy: the next command continues.
    #[error(
        "failed to import all of the task's changes in the repository `{}`; the next command continues",
        sanitized(path)
    )]
    Unfinished {
        /// Its folder, relative to the work tree.
        path: PathBuf,
        /// The cause.
        source: Box<sandbox_host_git::Error>,
    },
    /// There are more repositories than a task can have as views or read-only mounts.
    #[error(
        "`{}` has {count} git repositories, and a task can have at most {most}: mount a folder of it that \
         has fewer, or work on a copy",
        sanitized(tree)
    )]
    TooManyRepositories {
        /// The work tree.
        tree: PathBuf,
        /// The number of its repositories.
        count: usize,
        /// The maximum number.
        most: usize,
    },
    /// No task changed this setting of git, or it was applied before. Nothing was applied.
    #[error("no setting `{}` is waiting", key.escape_debug())]
    NoSetting {
        /// Its name as the caller gave it.
        key: String,
    },
    /// A step failed, and the steps before it were undone.
    #[error("failed to apply the change of `{}`; everything is as it was before", sanitized(path))]
    RolledBack {
        /// Relative to the work tree.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A step failed, and undoing the steps before it failed too, or their paths changed meanwhile.
    /// The replaced content is kept.
    #[error("failed to undo the change of `{}`{}", sanitized(path), whereabouts(kept.as_deref()))]
    HalfDone {
        /// Relative to the work tree.
        path: PathBuf,
        /// The path of the former content; `None` if there was none.
        kept: Option<PathBuf>,
        /// The cause.
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
    kept.map(|kept| format!("; the replaced entry is in `{}`", sanitized(kept))).unwrap_or_default()
}

fn shown(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().take(20).map(|path| format!("`{}`", sanitized(path))).collect();
    let more = if paths.len() > names.len() { ", …" } else { "" };
    names.join(", ") + more
}

/// A path in a form that is safe to print: a task chooses names in a work tree, and must not forge
/// lines or control the terminal.
#[must_use]
pub fn sanitized(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_chosen_by_a_task_forges_nothing() {
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
