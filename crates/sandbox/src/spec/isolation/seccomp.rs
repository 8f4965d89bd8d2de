//! The filter of system calls.

use std::path::PathBuf;

use super::rules;
use crate::spec::InvalidSpec;

/// The filter of system calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Seccomp {
    /// The sandbox's own profile: podman's, without the calls that make namespaces and mounts, and without the kernel's key rings. What
    /// the capability `SYS_ADMIN` is for is permitted to those who have it.
    #[default]
    Sandbox,
    /// The engine's own profile. Podman's lets everybody make user namespaces, and so have every capability in them.
    Default,
    /// A profile in a file, as an absolute path that the engine's *service* reads. Podman takes no profile inline.
    Profile(PathBuf),
    /// No filter: every system call of the kernel is in reach.
    Unconfined,
}

impl Seccomp {
    pub(super) fn validate(&self) -> Result<(), InvalidSpec> {
        match self {
            Self::Profile(path) if !path.to_str().is_some_and(rules::is_plain_path) => Err(InvalidSpec::new(
                "isolation.seccomp",
                format!(
                    "`{}` is no plain absolute path; name a profile that the engine's service can read",
                    path.display()
                ),
            )),
            _ => Ok(()),
        }
    }
}
