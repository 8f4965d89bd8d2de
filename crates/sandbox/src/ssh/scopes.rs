//! The location of a scope's keys.

use std::path::Path;

use sandbox_ssh::{SshError, SshScope, Unlock};

/// The keys of the scope `name`, in `ssh` below the state folder of a
/// [`SandboxConfig`](crate::SandboxConfig), for operations that need no engine. Nothing is read,
/// created or unlocked yet.
///
/// # Errors
///
/// When `name` is not a valid scope name: 1 to 64 characters of `A-Z a-z 0-9 . _ -`, the first a
/// letter or digit.
pub fn scope(state_dir: &Path, name: &str, unlock: Unlock) -> Result<SshScope, SshError> {
    Ok(SshScope::open(&state_dir.join("ssh"), name.parse()?, unlock))
}
