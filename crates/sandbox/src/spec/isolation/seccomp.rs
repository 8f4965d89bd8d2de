//! The filter of system calls.

use std::path::PathBuf;

use super::rules;
use crate::spec::InvalidSpec;

/// The filter of system calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seccomp {
    /// The sandbox's own profile: a list of what may be called. No namespaces, no mounts, no key
    /// rings of the kernel, and sockets of the container's own network alone. What a capability is
    /// for is permitted to those who have it.
    #[default]
    Sandbox,
    /// The engine's own profile. Podman's lets everybody make user namespaces, and so have every
    /// capability in them, and open `AF_VSOCK` sockets, which lead from a virtual machine to its
    /// hypervisor, past every network sandbox.
    Default,
    /// A profile in a file, as an absolute path that the engine's *service* reads. Podman takes no
    /// profile inline.
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
                    "`{}` is not a plain absolute path; name a profile that the engine's service can read",
                    path.display()
                ),
            )),
            _ => Ok(()),
        }
    }
}
