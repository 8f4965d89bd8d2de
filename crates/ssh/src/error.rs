//! What can go wrong with keys.

use std::io;
use std::path::PathBuf;

use crate::Scope;

/// Why keys could not be made, read or used. No message holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SshError {
    /// The name is none of a scope.
    #[error(
        "`{}` is not the name of a scope: 1 to 64 letters, digits, `.`, `_` and `-`, the first a letter or digit", name.escape_debug()
    )]
    InvalidScope {
        /// Its beginning.
        name: String,
    },
    /// The comment is too long or holds a control character.
    #[error("a comment has at most 200 bytes and no control characters")]
    InvalidComment,
    /// The passphrase is not to be had.
    #[error("cannot unlock SSH keys: {reason}")]
    Locked {
        /// Why.
        reason: String,
    },
    /// The passphrase is not the one that the keys were encrypted with.
    #[error("the passphrase does not open the SSH keys of `{scope}`")]
    WrongPassphrase {
        /// Whose keys.
        scope: Scope,
    },
    /// There is nothing to sign with.
    #[error("`{scope}` has no SSH key; make one with `sandbox ssh init {scope}`")]
    NoKey {
        /// Whose.
        scope: Scope,
    },
    /// A file is no key of ours.
    #[error("`{}` is not a key that was made here", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("failed to {operation} `{}`", path.display())]
    Files {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A key could not be made: the system has no random numbers, or encrypting it failed.
    #[error("failed to make an SSH key: {0}")]
    Make(ssh_key::Error),
}
