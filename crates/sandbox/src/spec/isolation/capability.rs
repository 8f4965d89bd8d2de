//! Linux capabilities by the kernel's numbers.

use std::fmt;
use std::str::FromStr;

use crate::spec::InvalidSpec;

/// A Linux capability, as capabilities(7) describes it.
///
/// ```
/// let capability: sandbox::isolation::Capability = "NET_BIND_SERVICE".parse()?;
/// assert_eq!(capability, sandbox::isolation::Capability::NET_BIND_SERVICE);
/// # Ok::<(), sandbox::InvalidSpec>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability(u8);

macro_rules! capabilities {
    ($($name:ident = $bit:literal,)*) => {
        impl Capability {
            $(
                #[doc = concat!("`CAP_", stringify!($name), "`.")]
                pub const $name: Self = Self($bit);
            )*

            /// Every known capability, ordered by the kernel's numbers.
            const ALL: &[(Self, &str)] = &[$((Self::$name, stringify!($name)),)*];
        }
    };
}

capabilities! {
    CHOWN = 0,
    DAC_OVERRIDE = 1,
    DAC_READ_SEARCH = 2,
    FOWNER = 3,
    FSETID = 4,
    KILL = 5,
    SETGID = 6,
    SETUID = 7,
    SETPCAP = 8,
    LINUX_IMMUTABLE = 9,
    NET_BIND_SERVICE = 10,
    NET_BROADCAST = 11,
    NET_ADMIN = 12,
    NET_RAW = 13,
    IPC_LOCK = 14,
    IPC_OWNER = 15,
    SYS_MODULE = 16,
    SYS_RAWIO = 17,
    SYS_CHROOT = 18,
    SYS_PTRACE = 19,
    SYS_PACCT = 20,
    SYS_ADMIN = 21,
    SYS_BOOT = 22,
    SYS_NICE = 23,
    SYS_RESOURCE = 24,
    SYS_TIME = 25,
    SYS_TTY_CONFIG = 26,
    MKNOD = 27,
    LEASE = 28,
    AUDIT_WRITE = 29,
    AUDIT_CONTROL = 30,
    SETFCAP = 31,
    MAC_OVERRIDE = 32,
    MAC_ADMIN = 33,
    SYSLOG = 34,
    WAKE_ALARM = 35,
    BLOCK_SUSPEND = 36,
    AUDIT_READ = 37,
    PERFMON = 38,
    BPF = 39,
    CHECKPOINT_RESTORE = 40,
}

impl Capability {
    /// Its name, without `CAP_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find_map(|&(known, name)| (known == self).then_some(name)).unwrap_or_default()
    }

    /// The kernel's bit set of `capabilities`.
    pub(crate) fn bits(capabilities: &std::collections::BTreeSet<Self>) -> u64 {
        capabilities.iter().fold(0, |set, capability| set | 1 << capability.0)
    }

    /// The names of the bits in a set from `/proc`; a bit without a known name is represented by
    /// its number.
    pub(crate) fn names_of(set: u64) -> impl Iterator<Item = String> {
        (0..64_u8).filter(move |bit| set >> bit & 1 == 1).map(|bit| {
            let name = Self(bit).name();
            if name.is_empty() { format!("#{bit}") } else { name.to_owned() }
        })
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Capability {
    type Err = InvalidSpec;

    /// Accepts `NET_RAW`, `CAP_NET_RAW` and `net_raw`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("CAP_").unwrap_or(&upper);
        Self::ALL.iter().find_map(|&(known, its)| (its == name).then_some(known)).ok_or_else(|| {
            InvalidSpec::new(
                "isolation.capabilities",
                format!(
                    "`{}` is not a Linux capability; write one such as NET_BIND_SERVICE",
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
    fn bits_have_the_names_of_the_kernel() {
        let names = |set| Capability::names_of(set).collect::<Vec<_>>();
        assert!(names(0).is_empty());
        // As `capsh --decode` prints them.
        assert_eq!(names(0xeb), ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]);
        assert_eq!(
            names(1 << 12 | 1 << 21 | 1 << 40 | 1 << 63),
            ["NET_ADMIN", "SYS_ADMIN", "CHECKPOINT_RESTORE", "#63"]
        );
    }

    #[test]
    fn names_are_parsed_and_others_refused() {
        for &(capability, name) in Capability::ALL {
            assert_eq!(name.parse::<Capability>().unwrap(), capability);
            assert_eq!(format!("cap_{name}").parse::<Capability>().unwrap(), capability);
        }
        for text in ["", "ALL", "CAP_", "NET RAW", "NET_RAW,SYS_ADMIN"] {
            assert!(text.parse::<Capability>().is_err(), "{text:?}");
        }
    }
}
