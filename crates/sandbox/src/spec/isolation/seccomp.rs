//! The seccomp filter.

use std::path::PathBuf;

use super::rules;
use crate::spec::InvalidSpec;

/// The seccomp filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seccomp {
    /// The sandbox's own profile, an allowlist of system calls. No namespaces, no mounts, no kernel
    /// key rings, and only sockets of the container's own network. Calls that need a capability are
    /// permitted to those that have it.
    #[default]
    Sandbox,
    /// The engine's own profile. Podman's lets every process create user namespaces, with every
    /// capability inside of them, and open `AF_VSOCK` sockets, which lead from a virtual machine to
    /// its hypervisor, past every network sandbox.
    Default,
    /// A profile in a file, as an absolute path that the engine's *service* reads. Podman accepts
    /// no inline profile.
    Profile(PathBuf),
    /// No filter: every system call of the kernel is available.
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
