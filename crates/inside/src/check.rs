//! The checks of `sandbox verify`, and their guarantees.

use serde::{Deserialize, Serialize};

const PRESET: &str =
    "use the isolation preset unchanged; a setting that overrides it removes this protection";
const ENGINE: &str =
    "the engine or its host grants more than was requested; check `sandbox doctor` and containers.conf";
const PROXY_ONLY: &str =
    "keep the network sandbox on (`network_sandbox: true`, the default), or use no network";
const IMAGE: &str = "repair the program in the image";

/// The subject of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Users, groups and privileges of the processes.
    Rights,
    /// Permitted system calls.
    Kernel,
    /// Visible parts of the host.
    Host,
    /// Writable files.
    Files,
    /// Network access.
    Network,
    /// Limits on resources.
    Limits,
    /// Functions that must work.
    Works,
}

impl Category {
    /// Its name, as the JSON form has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rights => "rights",
            Self::Kernel => "kernel",
            Self::Host => "host",
            Self::Files => "files",
            Self::Network => "network",
            Self::Limits => "limits",
            Self::Works => "works",
        }
    }
}

/// One table: category, variant, id, guarantee, and the fix if it does not hold.
macro_rules! checks {
    ($($category:ident { $($check:ident $id:ident: $guarantee:literal, $fix:expr;)* })*) => {
        /// A check and its guarantee.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Check {
            $($(#[doc = concat!(stringify!($category), ": ", $guarantee, ".")] $check,)*)*
        }

        impl Check {
            /// Every check, in the order of a report.
            pub const ALL: &[Self] = &[$($(Self::$check,)*)*];

            fn row(self) -> (Category, &'static str, &'static str, &'static str) {
                match self {
                    $($(Self::$check => (Category::$category, stringify!($id), $guarantee, $fix),)*)*
                }
            }
        }
    };
}

checks! {
    Rights {
        UserIsSandbox user_is_sandbox: "commands run as the requested user, in its group alone", PRESET;
        UserNotRoot user_not_root: "no id of the process is root's", PRESET;
        Capabilities capabilities: "no process has, or can get, a capability that was not requested", PRESET;
        NoNewPrivileges no_new_privileges: "no program gives more rights than its caller has", PRESET;
        SudoBlocked sudo_blocked: "sudo, su and the like give nothing",
            "keep no-new-privileges on, or remove these programs from the image";
        SetuidBlocked setuid_blocked: "set-user-id programs run as their caller", "keep no-new-privileges on";
    }
    Kernel {
        SeccompFilter seccomp_filter: "system calls are filtered",
            "use a podman and a kernel with seccomp, and no profile of your own that allows everything";
        UserNamespaceRefused user_namespace_refused: "no user namespace can be created",
            "keep the sandbox's own seccomp profile";
        RawSocketsRefused raw_sockets_refused: "no raw or packet socket can be opened", "do not add the capability NET_RAW";
        ForeignSocketsRefused foreign_sockets_refused:
            "no socket family that leaves the network namespace (AF_VSOCK) or that no task needs can be opened",
            "keep the sandbox's own seccomp profile";
        MountRefused mount_refused: "nothing can be mounted", "do not add the capability SYS_ADMIN";
        PivotRootRefused pivot_root_refused: "the root cannot be replaced", "do not add the capability SYS_ADMIN";
        ChrootRefused chroot_refused: "the root cannot be moved", "do not add the capability SYS_CHROOT";
        ModulesRefused modules_refused: "no kernel module can be loaded", "do not add the capability SYS_MODULE";
        RebootRefused reboot_refused: "the machine cannot be rebooted", "do not add the capability SYS_BOOT";
        ClockRefused clock_refused: "the clock cannot be set", "do not add the capability SYS_TIME";
        DeviceNodesRefused device_nodes_refused: "no device node can be created", "do not add the capability MKNOD";
    }
    Host {
        NamespacesOwn namespaces_own: "network, processes, mounts, IPC and host name are the container's own", ENGINE;
        ProcessesOwn processes_own: "no process of the host is visible", ENGINE;
        ProcSysReadonly proc_sys_readonly: "no kernel setting can be written", ENGINE;
        SysReadonly sys_readonly: "nothing below /sys can be written", ENGINE;
        CgroupReadonly cgroup_readonly: "the container cannot change its own limits", ENGINE;
        MaskedPaths masked_paths: "/proc and /sys hide the host's memory, keys and firmware", ENGINE;
        KernelLogHidden kernel_log_hidden: "the kernel's log cannot be read",
            "do not add the capability SYSLOG or devices of the host";
        DevicesMinimal devices_minimal: "/dev has harmless devices only", "do not add devices of the host";
        EngineSocketAbsent engine_socket_absent: "no engine's socket can be reached",
            "do not mount an engine's socket, or a folder that contains one";
        HostsFileClean hosts_file_clean: "the hosts file reveals nothing of the host",
            "do not mount a hosts file, and add no names that lead to the host";
        EnvironmentClean environment_clean: "no variable is set but those for the container", ENGINE;
    }
    Files {
        RootReadonly root_readonly: "the root file system cannot be written", PRESET;
        EtcReadonly etc_readonly: "/etc cannot be written, because its file system is read-only", PRESET;
        UsrReadonly usr_readonly: "/usr cannot be written, because its file system is read-only", PRESET;
        MountsBounded mounts_bounded: "nothing of the host can be written outside the writable mounts", ENGINE;
        MemoryBoundedFiles memory_bounded_files: "every file system in memory has a size, and is full at it", PRESET;
        ScratchNoexec scratch_noexec: "no program can be executed from the folders in memory", PRESET;
        SandboxFilesKept sandbox_files_kept: "the sandbox's own mounts cannot be changed from inside",
            "do not mount over the sandbox's files";
        PrivateKeysAbsent private_keys_absent: "the sandbox's own mounts contain no private key",
            "report this to the maintainers; it must not happen";
    }
    Network {
        InterfacesBounded interfaces_bounded: "there is no interface but loopback and the one to the proxy", PROXY_ONLY;
        NoRouteOut no_route_out: "there is no default route", PROXY_ONLY;
        Ipv6Absent ipv6_absent: "no interface has an IPv6 address", PROXY_ONLY;
        Ipv6StaysOff ipv6_stays_off: "IPv6 cannot be turned on", PROXY_ONLY;
        TcpOutRefused tcp_out_refused: "the kernel refuses connections to anywhere else", PROXY_ONLY;
        UdpOutRefused udp_out_refused: "the kernel refuses datagrams to anywhere else", PROXY_ONLY;
        PingOutRefused ping_out_refused: "the kernel refuses echo requests to anywhere else", PROXY_ONLY;
        MetadataRefused metadata_refused: "the cloud's metadata service cannot be reached", PROXY_ONLY;
        ResolversRefused resolvers_refused: "no other name server can be reached, over UDP or TCP", PROXY_ONLY;
        NeighboursAbsent neighbours_absent: "no address of the container's network answers but the proxy's", PROXY_ONLY;
        ProxyAnswers proxy_answers: "every name resolves to the proxy, which refuses requests that are not allowed",
            "see the network log of the run, and `sandbox doctor`";
    }
    Limits {
        ProcessLimits process_limits: "the limits on each process are in force", PRESET;
        ProcessesBounded processes_bounded: "a fork bomb ends at the limit of processes",
            "use an engine that can limit processes: rootless podman needs control groups v2";
        MemoryBounded memory_bounded: "a process that exceeds the memory limit is killed",
            "use an engine that can limit memory: rootless podman needs control groups v2";
        TimeoutEnforced timeout_enforced: "a run that exceeds its time limit is killed, with all its processes",
            "check the engine: it did not kill a container in time";
    }
    Works {
        TmpWritable tmp_writable: "/tmp can be written", "give the container a tmpfs at /tmp";
        HomeWritable home_writable: "the home folder can be written", "give the container a tmpfs at its home";
        ExitCodePreserved exit_code_preserved: "exit codes are passed on unchanged",
            "check the engine: it lost an exit code";
        BashAvailable bash_available: "bash works", IMAGE;
        PythonAvailable python_available: "Python 3 works", IMAGE;
    }
}

impl Check {
    /// Its name, as the JSON form has it.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.row().1
    }

    /// Its subject.
    #[must_use]
    pub fn category(self) -> Category {
        self.row().0
    }

    /// Its guarantee.
    #[must_use]
    pub fn guarantee(self) -> &'static str {
        self.row().2
    }

    /// The fix if the guarantee does not hold.
    #[must_use]
    pub fn fix(self) -> &'static str {
        self.row().3
    }

    /// Whether it runs outside, because the container cannot observe it.
    #[must_use]
    pub fn is_of_the_host(self) -> bool {
        matches!(self, Self::TimeoutEnforced | Self::ExitCodePreserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_form_of_a_check_is_its_id() {
        for check in Check::ALL {
            assert_eq!(serde_json::to_value(check).unwrap(), check.id());
        }
    }
}
