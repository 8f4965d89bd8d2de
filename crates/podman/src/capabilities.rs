//! The version of the engine, and its limitations.

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

    /// Parses `5.4.2`, also with a suffix: `5.5.0-dev`, `4.3.1+ds1`.
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

/// The capabilities of the engine, determined once when connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    version: Version,
}

impl Capabilities {
    /// The oldest podman that this crate is tested with.
    pub const OLDEST: Version = Version::new(4, 3);

    /// The capabilities of an engine of this version.
    #[must_use]
    pub fn new(version: Version) -> Self {
        Self { version }
    }

    /// The engine's version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether this crate supports the version.
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

    /// Whether the end of a container wakes its waiters. Older engines poll for it, which costs
    /// processor time.
    #[must_use]
    pub fn wakes_waits(&self) -> bool {
        self.version >= Version::new(5, 3)
    }

    /// Whether the engine detects, on hosts with control groups version 1, that a process was
    /// killed for lack of memory.
    #[must_use]
    pub fn reports_out_of_memory(&self) -> bool {
        self.version >= Version::new(5, 0)
    }

    /// Whether a bridge keeps its hardware address when containers join and leave. Otherwise, a
    /// container that joins or leaves cuts off the others on that network for seconds (measured on
    /// 4.3.1).
    #[must_use]
    pub fn has_stable_bridges(&self) -> bool {
        self.version >= Version::new(5, 0)
    }

    /// Whether a limit on processes leaves the engine's own limits in force. Older engines replace
    /// them with limits that they may not be permitted to set.
    #[must_use]
    pub fn keeps_default_limits(&self) -> bool {
        self.version >= Version::new(5, 0)
    }

    /// The limitations of this version, one sentence each.
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
                "the engine polls for the end of a container, so the sandbox watches the container's monitor",
            ),
            (
                self.has_stable_bridges(),
                "containers that join or leave a network disturb the others on it, so each proxy gets its own network",
            ),
            (
                self.keeps_default_limits(),
                "an explicit limit on processes replaces the engine's own limits, so they are looked up and passed along",
            ),
            (
                self.reports_out_of_memory(),
                "a process killed for lack of memory is not distinguished from one killed otherwise",
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
    fn version_is_parsed_as_printed_by_podman() {
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
    fn tested_versions_have_their_limitations() {
        let of = |text: &str| Capabilities::new(text.parse().unwrap());
        assert!(of("4.3.1").is_supported() && of("5.4.2").is_supported() && !of("4.2.0").is_supported());
        assert_eq!(of("4.3.1").limitations().len(), 6);
        assert!(of("5.4.2").limitations().is_empty());
    }
}
