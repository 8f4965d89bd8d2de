//! Errors about keys.

use std::io;
use std::path::PathBuf;

use crate::Scope;

/// Keys could not be created, read or used. No message contains a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SshError {
    /// The name is not valid for a scope.
    #[error(
        "`{}` is not a valid scope name: expected 1 to 64 letters, digits, `.`, `_` and `-`, the first a letter or digit", name.escape_debug()
    )]
    InvalidScope {
        /// The beginning of the name.
        name: String,
    },
    /// The comment is too long or contains a control character.
    #[error("a comment has at most 200 bytes and no control characters")]
    InvalidComment,
    /// The passphrase is not available.
    #[error("failed to unlock SSH keys: {reason}")]
    Locked {
        /// The reason.
        reason: String,
    },
    /// The keys were encrypted with another passphrase.
    #[error("the passphrase does not open the SSH keys of `{scope}`")]
    WrongPassphrase {
        /// The scope of the keys.
        scope: Scope,
    },
    /// The scope has no key to sign with.
    #[error("`{scope}` has no SSH key; create one with `sandbox ssh init {scope}`")]
    NoKey {
        /// The scope.
        scope: Scope,
    },
    /// A file is not a key in our format.
    #[error("`{}` is not a key that this program created", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("failed to {operation} `{}`", path.display())]
    Files {
        /// The failed operation.
        operation: &'static str,
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A key could not be created: the system has no random numbers, or encryption failed.
    #[error("failed to create an SSH key: {0}")]
    Make(ssh_key::Error),
}
