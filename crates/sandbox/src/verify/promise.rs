//! Which promises were made.

use sandbox_verify_probe::PROMISES;

use crate::spec::{Capability, Isolation, Network, ResourceLimits, Seccomp};

use super::VerifySpec;

/// The checks that apply, in the order in which they are told.
pub(super) fn checks(spec: &VerifySpec) -> Vec<&'static str> {
    let (isolation, limits) = &spec.promised;
    let applies = |id: &str| {
        let is_expected = spec.programs.iter().any(|program| program.check() == id);
        let is_of_image = id.ends_with("_available");
        if is_of_image {
            is_expected
        } else {
            of_isolation(id, isolation) && of_limits(id, limits) && of_network(id, &spec.network)
        }
    };
    PROMISES
        .iter()
        .map(|promise| promise.id)
        .filter(|id| applies(id))
        .collect()
}

fn of_isolation(id: &str, isolation: &Isolation) -> bool {
    let lacks = |capability| !isolation.capabilities.contains(&capability);
    let is_root = isolation
        .user
        .as_deref()
        .is_none_or(|user| matches!(user.split(':').next(), Some("" | "0" | "root")));
    match id {
        "user_is_sandbox" => isolation.user.is_some(),
        "user_not_root" | "sudo_blocked" => !is_root,
        "no_new_privileges" | "setuid_blocked" => isolation.no_new_privileges,
        "seccomp_filter" => isolation.seccomp != Seccomp::Unconfined,
        "user_namespace_refused" => isolation.seccomp == Seccomp::Sandbox && lacks(Capability::SYS_ADMIN),
        "foreign_sockets_refused" => isolation.seccomp == Seccomp::Sandbox,
        "raw_sockets_refused" => lacks(Capability::NET_RAW),
        "mount_refused" | "pivot_root_refused" => lacks(Capability::SYS_ADMIN),
        "chroot_refused" => lacks(Capability::SYS_CHROOT),
        "modules_refused" => lacks(Capability::SYS_MODULE),
        "reboot_refused" => lacks(Capability::SYS_BOOT),
        "clock_refused" => lacks(Capability::SYS_TIME),
        "device_nodes_refused" => lacks(Capability::MKNOD),
        "kernel_log_hidden" => lacks(Capability::SYSLOG),
        "root_readonly" | "etc_readonly" | "usr_readonly" => isolation.read_only_root,
        "scratch_noexec" => isolation.tmpfs.iter().any(|tmpfs| !tmpfs.exec),
        "home_writable" => !isolation.read_only_root || has_writable_home(isolation),
        "process_limits" => !isolation.ulimits.is_empty(),
        _ => true,
    }
}

fn has_writable_home(isolation: &Isolation) -> bool {
    isolation
        .home
        .as_deref()
        .is_some_and(|home| isolation.tmpfs.iter().any(|tmpfs| tmpfs.path == home))
}

fn of_limits(id: &str, limits: &ResourceLimits) -> bool {
    match id {
        "processes_bounded" => limits.pids.is_some(),
        "memory_bounded" => limits.memory.is_some(),
        _ => true,
    }
}

fn of_network(id: &str, network: &Network) -> bool {
    match id {
        "neighbours_absent" | "proxy_answers" => matches!(network, Network::Sandboxed(_)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::spec::ImageTag;
    use crate::verify::ExpectedProgram;

    fn of(isolation: Isolation, limits: ResourceLimits) -> VerifySpec {
        VerifySpec::new(ImageTag::new("x"), isolation, limits)
    }

    fn set(spec: &VerifySpec) -> BTreeSet<&'static str> {
        checks(spec).into_iter().collect()
    }

    #[test]
    fn the_untrusted_are_promised_all_but_what_a_network_has() {
        let spec = of(Isolation::untrusted(), ResourceLimits::untrusted())
            .program(ExpectedProgram::Bash)
            .program(ExpectedProgram::Python);
        let missing: Vec<&str> = PROMISES
            .iter()
            .map(|promise| promise.id)
            .filter(|id| !set(&spec).contains(id))
            .collect();
        assert_eq!(missing, ["neighbours_absent", "proxy_answers"]);
    }

    #[test]
    fn an_agent_is_promised_less() {
        let agent = set(&of(Isolation::agent(), ResourceLimits::default()));
        let untrusted = set(&of(Isolation::untrusted(), ResourceLimits::untrusted()));
        let less: Vec<&str> = untrusted.difference(&agent).copied().collect();
        let expected = [
            "etc_readonly",
            "memory_bounded",
            "processes_bounded",
            "root_readonly",
            "scratch_noexec",
            "sudo_blocked",
            "user_is_sandbox",
            "user_not_root",
            "usr_readonly",
        ];
        assert_eq!(less, expected);
        assert!(agent.is_subset(&untrusted));
    }

    #[test]
    fn a_right_that_was_given_is_no_broken_promise() {
        let isolation = Isolation {
            capabilities: [Capability::NET_RAW, Capability::SYS_ADMIN].into(),
            ..Isolation::agent()
        };
        let given = set(&of(isolation, ResourceLimits::default()));
        for id in ["raw_sockets_refused", "mount_refused", "user_namespace_refused"] {
            assert!(!given.contains(id), "{id}");
        }
        assert!(given.contains("capabilities"));
    }
}
