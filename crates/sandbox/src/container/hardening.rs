//! How a container is confined, whatever its network is.

/// How a container is confined. All capabilities are dropped, and then `capabilities` are given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hardening {
    /// Capabilities that stay, without the `CAP_` prefix.
    pub(crate) capabilities: &'static [&'static str],
    /// Set-user-id programs and file capabilities give nothing.
    pub(crate) no_new_privileges: bool,
    /// The root file system cannot be written.
    pub(crate) read_only_root: bool,
    /// `None`: the image's user.
    pub(crate) user: Option<&'static str>,
    /// A process of the engine is PID 1: it reaps zombies and passes signals on.
    pub(crate) init: bool,
}

impl Hardening {
    /// For tasks: root may act on all files of the container and become another user, which package managers need, and end other
    /// users' processes. No raw sockets, no network settings, no devices, no mounts.
    pub(crate) fn agent() -> Self {
        Self {
            capabilities: &["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"],
            no_new_privileges: true,
            read_only_root: false,
            user: None,
            init: true,
        }
    }

    /// For the egress proxy: nobody, with nothing. Low ports are opened by a sysctl of its own network, not by a capability.
    pub(crate) fn proxy() -> Self {
        Self {
            capabilities: &[],
            no_new_privileges: true,
            read_only_root: true,
            user: Some("65534:65534"),
            init: false,
        }
    }

    /// The same for an image whose user is `image_user`, unless the user is given here. One who is not root gets no capabilities:
    /// the engine would make them effective for each of its processes, as if it were root.
    #[must_use]
    pub(crate) fn for_user(self, image_user: &str) -> Self {
        let user = self.user.unwrap_or(image_user);
        let is_root = matches!(user.split(':').next(), None | Some("" | "0" | "root"));
        Self {
            capabilities: if is_root { self.capabilities } else { &[] },
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_keeps_capabilities() {
        for (user, keeps) in [
            ("", true),
            ("0", true),
            ("root", true),
            ("0:0", true),
            ("node", false),
            ("1000:0", false),
        ] {
            assert_eq!(
                !Hardening::agent().for_user(user).capabilities.is_empty(),
                keeps,
                "{user:?}"
            );
        }
        let given = Hardening {
            user: Some("1000"),
            ..Hardening::agent()
        };
        assert!(given.for_user("root").capabilities.is_empty());
    }
}
