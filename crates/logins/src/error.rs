//! Errors of logins.

use std::io;
use std::path::PathBuf;

use sandbox_files::host_path::PathError;

/// A login that cannot be used or refreshed. No message shows a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The file cannot be read.
    #[error("failed to read the login: log in with `{command}`, or name another file")]
    Read {
        /// The command that creates a login.
        command: &'static str,
        /// The cause.
        #[source]
        source: PathError,
    },
    /// A task could have written the file.
    #[error("`{}` is where tasks can write, so this login is not used: move it out of the folders that are mounted", file.display())]
    Untrusted {
        /// The file.
        file: PathBuf,
    },
    /// The file is not a login of this kind.
    #[error("`{}` contains no login ({what}): log in with `{command}`", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The missing or invalid part.
        what: &'static str,
        /// The command that creates a login.
        command: &'static str,
    },
    /// The access token has expired, and cannot be refreshed.
    #[error("the login in `{}` has expired and has no refresh token: log in with `{command}`", file.display())]
    Expired {
        /// The file.
        file: PathBuf,
        /// The command that creates a login.
        command: &'static str,
    },
    /// The vendor refused the refresh token: it is not sent again.
    #[error("the refresh of the login in `{}` was refused ({code}){}: log in again with `{command}`", file.display(), cut_off(*cut_off_before))]
    Refused {
        /// The file.
        file: PathBuf,
        /// The vendor's name for the reason.
        code: String,
        /// Whether an earlier refresh with this token ended before its answer was stored.
        cut_off_before: bool,
        /// The command that creates a login.
        command: &'static str,
    },
    /// There was no answer, or none about the login. Another attempt may succeed.
    #[error("failed to refresh the login at {url}: {problem}")]
    Unavailable {
        /// The endpoint.
        url: String,
        /// The problem.
        problem: String,
    },
    /// The file, or its lock or record, cannot be written.
    #[error("failed to write `{}`, so the login is not refreshed: make it writable", file.display())]
    Store {
        /// The path that cannot be written.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Another process has been refreshing it for too long.
    #[error("another program has been refreshing the login in `{}` for too long: try again, or remove `{}`", file.display(), lock.display())]
    Locked {
        /// The file.
        file: PathBuf,
        /// The lock of the other program.
        lock: PathBuf,
    },
}

impl LoginError {
    /// Whether another attempt may succeed without intervention.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Locked { .. })
    }
}

fn cut_off(before: bool) -> &'static str {
    if before {
        "; an earlier refresh was cut off before its answer was stored, so its tokens are lost"
    } else {
        ""
    }
}
