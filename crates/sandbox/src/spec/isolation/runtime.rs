//! What runs containers.

use std::fmt;
use std::str::FromStr;

use crate::spec::InvalidSpec;

/// A program that runs containers. A closed list of names, never a path: a path would be a program
/// of the caller's that the engine runs with its own rights.
///
/// No podman lets a caller of its API choose: a service runs all its containers with one runtime.
/// So this is a demand, and it is an error when the engine's service runs another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// crun, podman's usual one.
    Crun,
    /// runc.
    Runc,
    /// gVisor: a kernel of its own between the container and the host's.
    ///
    /// An executor works there only if its isolation demands it and each command has a container of
    /// its own: gVisor does not hide processes from others of their user.
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
                    "`{}` is none of crun, runc, runsc and krun; a path is never taken",
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
    fn names_are_read_and_paths_refused() {
        for runtime in Runtime::ALL {
            assert_eq!(runtime.as_str().parse::<Runtime>().unwrap(), runtime);
        }
        for text in ["", "/usr/bin/crun", "crun ", "RUNSC", "../runc", "youki"] {
            assert!(text.parse::<Runtime>().is_err(), "{text:?}");
        }
    }
}
