//! Presets other than [`Isolation::agent`].

use std::collections::BTreeSet;

use super::{Isolation, Tmpfs};

impl Isolation {
    /// For an untrusted command: user 1000, without any capability, on a read-only root file
    /// system, with bounded in-memory folders from which nothing can be executed.
    ///
    /// Combine it with no network ([`Network::Disabled`](crate::Network::Disabled)) and
    /// [`ResourceLimits::untrusted`](crate::ResourceLimits::untrusted).
    #[must_use]
    pub fn untrusted() -> Self {
        Self {
            capabilities: BTreeSet::new(),
            read_only_root: true,
            tmpfs: vec![
                Tmpfs::new("/tmp", 64 << 20),
                Tmpfs::new("/home/sandbox", 64 << 20),
                Tmpfs::new("/var/tmp", 32 << 20),
                Tmpfs::new("/run", 16 << 20),
            ],
            shm_size: 16 << 20,
            user: Some("1000:1000".to_owned()),
            home: Some("/home/sandbox".to_owned()),
            ..Self::agent()
        }
    }

    /// For the egress proxy: user 65534, without any capability except those that it needs to
    /// confine itself, which are in its plan. A sysctl of its network namespace permits low ports.
    pub(crate) fn proxy() -> Self {
        let tiny = |path| Tmpfs::new(path, 64 << 10);
        Self {
            tmpfs: vec![tiny("/tmp"), tiny("/run"), tiny("/var/tmp")],
            shm_size: 64 << 10,
            user: Some("65534:65534".to_owned()),
            home: None,
            init: false,
            ..Self::untrusted()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Seccomp, Ulimit, UlimitKind, UserNamespace};
    use super::*;
    use crate::spec::Mount;

    #[test]
    fn presets_are_valid() {
        for preset in [Isolation::agent(), Isolation::untrusted(), Isolation::proxy()] {
            preset.validate().unwrap();
        }
    }

    #[test]
    fn capabilities_are_kept_by_root_only() {
        for (user, keeps) in
            [("", true), ("0", true), ("root", true), ("0:0", true), ("node", false), ("1000:0", false)]
        {
            let resolved = Isolation::agent().resolved(user, &[]);
            assert_eq!(!resolved.capabilities.is_empty(), keeps, "{user:?}");
        }
        let given = Isolation { user: Some("1000".to_owned()), ..Isolation::agent() };
        assert!(given.resolved("root", &[]).capabilities.is_empty());
    }

    #[test]
    fn writable_folders_of_a_read_only_root_are_bounded() {
        let paths = |isolation: Isolation, mounts: &[Mount]| {
            let mut paths: Vec<String> =
                isolation.resolved("", mounts).tmpfs.into_iter().map(|tmpfs| tmpfs.path).collect();
            paths.sort();
            paths
        };
        let bare = Isolation { read_only_root: true, ..Isolation::agent() };
        assert_eq!(paths(bare.clone(), &[]), ["/run", "/tmp", "/var/tmp"]);
        assert_eq!(paths(bare, &[Mount::read_write("/srv", "/tmp/")]), ["/run", "/var/tmp"]);
        assert_eq!(paths(Isolation::untrusted(), &[]), ["/home/sandbox", "/run", "/tmp", "/var/tmp"]);
        assert!(paths(Isolation::agent(), &[]).is_empty());
    }

    #[test]
    fn invalid_field_is_named_in_the_error() {
        let agent = Isolation::agent;
        let tmpfs = || Tmpfs::new("/tmp", 4096);
        for (isolation, field) in [
            (Isolation { hostname: "a\nb".to_owned(), ..agent() }, "hostname"),
            (Isolation { hostname: String::new(), ..agent() }, "hostname"),
            (Isolation { user: Some("a b".to_owned()), ..agent() }, "user"),
            (Isolation { user: Some("1:2:3".to_owned()), ..agent() }, "user"),
            (Isolation { home: Some("~".to_owned()), ..agent() }, "home"),
            (Isolation { shm_size: 1, ..agent() }, "shm_size"),
            (Isolation { swap: u64::MAX, ..agent() }, "swap"),
            (Isolation { tmpfs: vec![tmpfs(), tmpfs()], ..agent() }, "tmpfs"),
            (Isolation { masked_paths: vec!["/a:/b".to_owned()], ..agent() }, "masked_paths"),
            (Isolation { seccomp: Seccomp::Profile("x.json".into()), ..agent() }, "seccomp"),
            (
                Isolation {
                    ulimits: vec![Ulimit { kind: UlimitKind::OpenFiles, soft: 2, hard: 1 }],
                    ..agent()
                },
                "ulimits",
            ),
            (
                Isolation {
                    ulimits: vec![Ulimit::fixed(UlimitKind::Core, 0), Ulimit::fixed(UlimitKind::Core, 1)],
                    ..agent()
                },
                "ulimits",
            ),
            (
                Isolation { user_namespace: UserNamespace::Private { first: 0, size: 1 }, ..agent() },
                "user_namespace",
            ),
            (
                Isolation { user_namespace: UserNamespace::Private { first: 1, size: u32::MAX }, ..agent() },
                "user_namespace",
            ),
            (Isolation { stop_timeout: Duration::from_hours(2), ..agent() }, "stop_timeout"),
        ] {
            let error = isolation.validate().unwrap_err();
            assert_eq!(error.field(), format!("isolation.{field}"), "{error}");
        }
    }
}
