//! What is wrong with a login.

use std::io;
use std::path::PathBuf;

use sandbox_files::host_path::PathError;

/// A login that cannot be used, or not be refreshed. No message shows a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The file cannot be read.
    #[error("failed to read the login: log in with `{command}`, or name another file")]
    Read {
        /// What makes a login.
        command: &'static str,
        /// Why not.
        #[source]
        source: PathError,
    },
    /// A task could have written the file.
    #[error("`{}` lies where tasks can write, so this login is not used: move it out of the folders that are mounted", file.display())]
    Untrusted {
        /// The file.
        file: PathBuf,
    },
    /// The file is none of this kind.
    #[error("`{}` holds no login ({what}): log in with `{command}`", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is missing or wrong.
        what: &'static str,
        /// What makes a login.
        command: &'static str,
    },
    /// The access token has expired, and there is no way to another.
    #[error("the login in `{}` has expired and has no refresh token: log in with `{command}`", file.display())]
    Expired {
        /// The file.
        file: PathBuf,
        /// What makes a login.
        command: &'static str,
    },
    /// The vendor refused the refresh token: it is not sent again.
    #[error("the refresh of the login in `{}` was refused ({code}){}: log in again with `{command}`", file.display(), cut_off(*cut_off_before))]
    Refused {
        /// The file.
        file: PathBuf,
        /// What the vendor calls it.
        code: String,
        /// Whether an earlier refresh with this token ended before its answer was stored.
        cut_off_before: bool,
        /// What makes a login.
        command: &'static str,
    },
    /// There was no answer, or none that says anything of the login. Another attempt may succeed.
    #[error("failed to refresh the login at {url}: {problem}")]
    Unavailable {
        /// Where it was tried.
        url: String,
        /// What happened.
        problem: String,
    },
    /// The file, or what belongs to it, cannot be written.
    #[error("failed to write `{}`, so the login is not refreshed: make it writable", file.display())]
    Store {
        /// What cannot be written.
        file: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Another process refreshes it, and does not end.
    #[error("another program has been refreshing the login in `{}` for too long: try again, or remove `{}`", file.display(), lock.display())]
    Locked {
        /// The file.
        file: PathBuf,
        /// What the other program holds.
        lock: PathBuf,
    },
}

impl LoginError {
    /// Whether another attempt may succeed without anyone doing anything.
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
