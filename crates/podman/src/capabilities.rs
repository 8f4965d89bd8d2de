//! What the engine at the other end is, and what its version lacks.

use std::fmt;
use std::str::FromStr;

/// The version of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl Version {
    const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor, patch: 0 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = ();

    /// Reads `5.4.2`, and what a distribution or a developer appends: `5.5.0-dev`, `4.3.1+ds1`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let core = text.split(['-', '+', '~']).next().unwrap_or_default();
        let numbers: Vec<u32> = core.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| ())?;
        match *numbers.as_slice() {
            [major, minor] => Ok(Self { major, minor, patch: 0 }),
            [major, minor, patch] => Ok(Self { major, minor, patch }),
            _ => Err(()),
        }
    }
}

/// What the engine can do. Found out once, when the connection is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    version: Version,
}

impl Capabilities {
    /// The oldest podman that this crate is tested with.
    pub const OLDEST: Version = Version::new(4, 3);

    /// Of an engine of this version.
    #[must_use]
    pub fn new(version: Version) -> Self {
        Self { version }
    }

    /// The engine's version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether the version is one that this crate works with.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        self.version >= Self::OLDEST
    }

    /// Whether a network can have routes of its own.
    #[must_use]
    pub fn has_network_routes(&self) -> bool {
        self.version >= Version::new(4, 6)
    }

    /// Whether the engine can isolate a network from networks that are not isolated.
    #[must_use]
    pub fn has_strict_network_isolation(&self) -> bool {
        self.version >= Version::new(5, 0)
    }

    /// Whether the end of a container wakes those that wait for it. Older engines look for it at
    /// intervals, and use the processor for that.
    #[must_use]
    pub fn wakes_waits(&self) -> bool {
        self.version >= Version::new(5, 3)
    }

    /// Whether the engine notices on hosts with version 1 of control groups that a process was
    /// killed for want of memory.
    #[must_use]
    pub fn reports_out_of_memory(&self) -> bool {
        self.version >= Version::new(5, 0)
    }

    /// Whether a bridge keeps its hardware address when containers join and leave. Where it does
    /// not, a container that joins or leaves cuts the others on that network off for seconds
    /// (measured on 4.3.1).
    #[must_use]
    pub fn has_stable_bridges(&self) -> bool {
        self.version >= Version::new(5, 0)
    }

    /// Whether a limit on processes leaves the engine's own limits in force. Older engines put
    /// limits of theirs in their place, which they may not be allowed to set.
    #[must_use]
    pub fn keeps_default_limits(&self) -> bool {
        self.version >= Version::new(5, 0)
    }

    /// What this version lacks, one sentence each.
    #[must_use]
    pub fn limitations(&self) -> Vec<&'static str> {
        [
            (
                self.has_network_routes(),
                "networks cannot have routes of their own",
            ),
            (
                self.has_strict_network_isolation(),
                "networks cannot be isolated from networks that are not isolated themselves",
            ),
            (
                self.wakes_waits(),
                "the engine looks for the end of a container at intervals, so the sandbox watches the container's monitor",
            ),
            (
                self.has_stable_bridges(),
                "containers that join or leave a network disturb the others on it, so each proxy gets a network of its own",
            ),
            (
                self.keeps_default_limits(),
                "a limit on processes displaces the engine's own, so they are looked up and given along",
            ),
            (
                self.reports_out_of_memory(),
                "a process killed for want of memory is not distinguished from one killed otherwise",
            ),
        ]
        .into_iter()
        .filter_map(|(has, lack)| (!has).then_some(lack))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_podman_prints_them() {
        for (text, expected) in [
            ("4.3.1", Some((4, 3, 1))),
            ("5.4.2", Some((5, 4, 2))),
            ("5.5.0-dev", Some((5, 5, 0))),
            ("4.3.1+ds1-8", Some((4, 3, 1))),
            ("6.0", Some((6, 0, 0))),
            ("", None),
            ("5", None),
            ("five.four", None),
            ("5.4.2.1", None),
            ("99999999999.0.0", None),
        ] {
            let version = text.parse::<Version>().ok().map(|v| (v.major, v.minor, v.patch));
            assert_eq!(version, expected, "{text:?}");
        }
    }

    #[test]
    fn the_tested_versions_differ_in_what_they_lack() {
        let of = |text: &str| Capabilities::new(text.parse().unwrap());
        assert!(of("4.3.1").is_supported() && of("5.4.2").is_supported() && !of("4.2.0").is_supported());
        assert_eq!(of("4.3.1").limitations().len(), 6);
        assert!(of("5.4.2").limitations().is_empty());
    }
}
