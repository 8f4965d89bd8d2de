//! Errors about a session's files.

use std::io;
use std::path::PathBuf;

/// A session cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The operating system refused.
    #[error("failed to {operation} `{}`", path.display())]
    Io {
        /// The failed operation, such as `write`.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another execution, of this process or another one, holds the session.
    #[error("session directory `{}` is in use by another execution; wait for it or stop it", path.display())]
    Busy {
        /// The session directory.
        path: PathBuf,
    },
    /// A file is not in the expected form. It is never overwritten.
    #[error("session file `{}` is damaged ({reason}); restore it from a copy, or move it away to continue without it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// The directory contains the session of another execution context.
    #[error("session directory `{}` belongs to execution context `{found}`, not to `{expected}`; give each context its own", path.display())]
    OtherContext {
        /// The session directory.
        path: PathBuf,
        /// The context that the directory's files name.
        found: String,
        /// The expected context.
        expected: String,
    },
    /// The directory contains the session of another agent.
    #[error("session directory `{}` contains a session of the agent `{found}`; give each agent its own", path.display())]
    OtherAgent {
        /// The session directory.
        path: PathBuf,
        /// The agent that has its state there.
        found: String,
    },
    /// A name that the session owns is a symbolic link, a device or another file that must not be
    /// followed.
    #[error("refused to use `{}`: it is not a {expected} of its own; remove it", path.display())]
    Tampered {
        /// The name.
        path: PathBuf,
        /// The expected kind: `file` or `folder`.
        expected: &'static str,
    },
}
