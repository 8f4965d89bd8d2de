//! OCI runtimes.

use std::fmt;
use std::str::FromStr;

use crate::spec::InvalidSpec;

/// The OCI runtime. A closed list of names, never a path: a path would be a program of the caller
/// that the engine runs with its own privileges.
///
/// Podman's API has no choice of runtime: a service runs all its containers with one. So this is a
/// requirement, and it is an error if the engine's service uses another runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// crun, podman's default.
    Crun,
    /// runc.
    Runc,
    /// gVisor: a kernel of its own between the container and the host's.
    ///
    /// An executor works there only if its isolation requires gVisor and each command has a
    /// container of its own, because gVisor does not hide processes from others of the same user.
    Runsc,
    /// crun with libkrun: a virtual machine.
    Krun,
}

impl Runtime {
    const ALL: [Self; 4] = [Self::Crun, Self::Runc, Self::Runsc, Self::Krun];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
            Self::Runsc => "runsc",
            Self::Krun => "krun",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Runtime {
    type Err = InvalidSpec;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|runtime| runtime.as_str() == text).ok_or_else(|| {
            InvalidSpec::new(
                "isolation.runtime",
                format!(
                    "`{}` must be one of crun, runc, runsc, krun; a path is not accepted",
                    text.escape_debug()
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_paths_refused() {
        for runtime in Runtime::ALL {
            assert_eq!(runtime.as_str().parse::<Runtime>().unwrap(), runtime);
        }
        for text in ["", "/usr/bin/crun", "crun ", "RUNSC", "../runc", "youki"] {
            assert!(text.parse::<Runtime>().is_err(), "{text:?}");
        }
    }
}
