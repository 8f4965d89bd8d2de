//! Selects the checks that apply.

use sandbox_inside::Check;

use crate::spec::{Capability, Isolation, Network, Seccomp};

use super::{ExpectedProgram, VerifySpec};

/// The checks that apply, in the order of the report.
pub(super) fn checks(spec: &VerifySpec) -> Vec<Check> {
    Check::ALL.iter().copied().filter(|check| applies(*check, spec)).collect()
}

fn applies(check: Check, spec: &VerifySpec) -> bool {
    let (isolation, limits) = &spec.guaranteed;
    let lacks = |capability| !isolation.capabilities.contains(&capability);
    let has_program = |program: ExpectedProgram| spec.programs.contains(&program);
    let is_filtered = isolation.seccomp == Seccomp::Sandbox;
    match check {
        Check::UserIsSandbox => isolation.user.is_some(),
        Check::UserNotRoot | Check::SudoBlocked => !is_root(isolation.user.as_deref()),
        Check::NoNewPrivileges | Check::SetuidBlocked => isolation.no_new_privileges,
        Check::SeccompFilter => isolation.seccomp != Seccomp::Unconfined,
        Check::UserNamespaceRefused => is_filtered && lacks(Capability::SYS_ADMIN),
        Check::ForeignSocketsRefused => is_filtered,
        Check::RawSocketsRefused => lacks(Capability::NET_RAW),
        Check::MountRefused | Check::PivotRootRefused => lacks(Capability::SYS_ADMIN),
        Check::ChrootRefused => lacks(Capability::SYS_CHROOT),
        Check::ModulesRefused => lacks(Capability::SYS_MODULE),
        Check::RebootRefused => lacks(Capability::SYS_BOOT),
        Check::ClockRefused => lacks(Capability::SYS_TIME),
        Check::DeviceNodesRefused => lacks(Capability::MKNOD),
        Check::KernelLogHidden => lacks(Capability::SYSLOG),
        Check::RootReadonly | Check::EtcReadonly | Check::UsrReadonly => isolation.read_only_root,
        Check::ScratchNoexec => isolation.tmpfs.iter().any(|tmpfs| !tmpfs.exec),
        Check::HomeWritable => !isolation.read_only_root || has_writable_home(isolation),
        Check::ProcessLimits => !isolation.ulimits.is_empty(),
        Check::ProcessesBounded => limits.pids.is_some(),
        Check::MemoryBounded => limits.memory.is_some(),
        Check::NeighboursAbsent | Check::ProxyAnswers => matches!(spec.network, Network::Sandboxed(_)),
        Check::BashAvailable => has_program(ExpectedProgram::Bash),
        Check::PythonAvailable => has_program(ExpectedProgram::Python),
        Check::Capabilities
        | Check::NamespacesOwn
        | Check::ProcessesOwn
        | Check::ProcSysReadonly
        | Check::SysReadonly
        | Check::CgroupReadonly
        | Check::MaskedPaths
        | Check::DevicesMinimal
        | Check::EngineSocketAbsent
        | Check::HostsFileClean
        | Check::EnvironmentClean
        | Check::MountsBounded
        | Check::MemoryBoundedFiles
        | Check::SandboxFilesKept
        | Check::PrivateKeysAbsent
        | Check::InterfacesBounded
        | Check::NoRouteOut
        | Check::Ipv6Absent
        | Check::Ipv6StaysOff
        | Check::TcpOutRefused
        | Check::UdpOutRefused
        | Check::PingOutRefused
        | Check::MetadataRefused
        | Check::ResolversRefused
        | Check::TimeoutEnforced
        | Check::TmpWritable
        | Check::ExitCodePreserved => true,
    }
}

fn is_root(user: Option<&str>) -> bool {
    user.is_none_or(|user| matches!(user.split(':').next(), Some("" | "0" | "root")))
}

fn has_writable_home(isolation: &Isolation) -> bool {
    isolation.home.as_deref().is_some_and(|home| isolation.tmpfs.iter().any(|tmpfs| tmpfs.path == home))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::spec::{ImageTag, ResourceLimits};

    fn set(isolation: Isolation, limits: ResourceLimits) -> BTreeSet<Check> {
        let spec = VerifySpec::new(ImageTag::new("x"), isolation, limits)
            .program(ExpectedProgram::Bash)
            .program(ExpectedProgram::Python);
        checks(&spec).into_iter().collect()
    }

    #[test]
    fn untrusted_preset_has_every_guarantee_except_those_of_a_network() {
        let all: BTreeSet<Check> = Check::ALL.iter().copied().collect();
        let untrusted = set(Isolation::untrusted(), ResourceLimits::untrusted());
        let missing: Vec<Check> = all.difference(&untrusted).copied().collect();
        assert_eq!(missing, [Check::NeighboursAbsent, Check::ProxyAnswers]);
    }

    #[test]
    fn agent_preset_has_fewer_guarantees() {
        let agent = set(Isolation::agent(), ResourceLimits::default());
        let untrusted = set(Isolation::untrusted(), ResourceLimits::untrusted());
        let fewer: Vec<Check> = untrusted.difference(&agent).copied().collect();
        let expected = [
            Check::UserIsSandbox,
            Check::UserNotRoot,
            Check::SudoBlocked,
            Check::RootReadonly,
            Check::EtcReadonly,
            Check::UsrReadonly,
            Check::ScratchNoexec,
            Check::ProcessesBounded,
            Check::MemoryBounded,
        ];
        assert_eq!(fewer, expected);
        assert!(agent.is_subset(&untrusted));
    }

    #[test]
    fn granted_permission_removes_its_check() {
        let isolation = Isolation {
            capabilities: [Capability::NET_RAW, Capability::SYS_ADMIN].into(),
            ..Isolation::agent()
        };
        let granted = set(isolation, ResourceLimits::default());
        for check in [Check::RawSocketsRefused, Check::MountRefused, Check::UserNamespaceRefused] {
            assert!(!granted.contains(&check), "{check:?}");
        }
        assert!(granted.contains(&Check::Capabilities));
    }
}
