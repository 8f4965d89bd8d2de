//! Maps checks to functions.

use std::io;

use sandbox_inside::{Check, Finding, Order};

use super::observation::Observation;
use super::{environment, files, host, kernel, limits, network, rights, sockets, works};

/// Runs the checks of `order`, which is JSON, and prints a line of JSON for each.
///
/// No attempt harms a machine on which it succeeds: the kernel's answer shows whether it was
/// permitted, and a successful one is undone. Attempts that would change this process run in a
/// separate one.
pub(crate) fn verify(order: &str) -> io::Result<()> {
    let order: Order = serde_json::from_str(order)?;
    for &check in &order.checks {
        let Observation { held, detail } = observe(check, &order);
        println!("{}", serde_json::to_string(&Finding::new(check, held, detail))?);
    }
    Ok(())
}

fn observe(check: Check, order: &Order) -> Observation {
    match check {
        Check::UserIsSandbox => rights::user_is_sandbox(order),
        Check::UserNotRoot => rights::user_not_root(),
        Check::Capabilities => rights::capabilities(order),
        Check::NoNewPrivileges => rights::no_new_privileges(),
        Check::SudoBlocked => rights::sudo_blocked(),
        Check::SetuidBlocked => rights::setuid_blocked(),
        Check::SeccompFilter => kernel::seccomp_filter(),
        Check::UserNamespaceRefused => kernel::user_namespace_refused(),
        Check::RawSocketsRefused => kernel::raw_sockets_refused(),
        Check::ForeignSocketsRefused => kernel::foreign_sockets_refused(),
        Check::MountRefused => kernel::mount_refused(),
        Check::PivotRootRefused => kernel::pivot_root_refused(),
        Check::ChrootRefused => kernel::chroot_refused(),
        Check::ModulesRefused => kernel::modules_refused(),
        Check::RebootRefused => kernel::reboot_refused(),
        Check::ClockRefused => kernel::clock_refused(),
        Check::DeviceNodesRefused => kernel::device_nodes_refused(),
        Check::NamespacesOwn => host::namespaces_own(order),
        Check::ProcessesOwn => host::processes_own(),
        Check::ProcSysReadonly => host::proc_sys_readonly(),
        Check::SysReadonly => host::sys_readonly(),
        Check::CgroupReadonly => host::cgroup_readonly(),
        Check::MaskedPaths => host::masked_paths(),
        Check::KernelLogHidden => host::kernel_log_hidden(),
        Check::DevicesMinimal => host::devices_minimal(order),
        Check::EngineSocketAbsent => sockets::engine_socket_absent(order),
        Check::HostsFileClean => host::hosts_file_clean(order),
        Check::EnvironmentClean => environment::environment_clean(order),
        Check::RootReadonly => files::root_readonly(),
        Check::EtcReadonly => files::etc_readonly(),
        Check::UsrReadonly => files::usr_readonly(),
        Check::MountsBounded => files::mounts_bounded(order),
        Check::MemoryBoundedFiles => files::memory_bounded_files(order),
        Check::ScratchNoexec => files::scratch_noexec(order),
        Check::SandboxFilesKept => files::sandbox_files_kept(order),
        Check::PrivateKeysAbsent => files::private_keys_absent(),
        Check::InterfacesBounded => network::interfaces_bounded(order),
        Check::NoRouteOut => network::no_route_out(),
        Check::Ipv6Absent => network::ipv6_absent(),
        Check::Ipv6StaysOff => network::ipv6_stays_off(order),
        Check::TcpOutRefused => network::tcp_out_refused(),
        Check::UdpOutRefused => network::udp_out_refused(),
        Check::PingOutRefused => network::ping_out_refused(),
        Check::MetadataRefused => network::metadata_refused(),
        Check::ResolversRefused => network::resolvers_refused(),
        Check::NeighboursAbsent => network::neighbours_absent(),
        Check::ProxyAnswers => network::proxy_answers(),
        Check::ProcessLimits => limits::process_limits(order),
        Check::ProcessesBounded => limits::processes_bounded(order),
        Check::MemoryBounded => limits::memory_bounded(order),
        Check::TmpWritable => works::tmp_writable(),
        Check::HomeWritable => works::home_writable(),
        Check::BashAvailable => works::bash_available(),
        Check::PythonAvailable => works::python_available(),
        Check::TimeoutEnforced | Check::ExitCodePreserved => {
            Observation::broken("only the host can observe it")
        }
    }
}
