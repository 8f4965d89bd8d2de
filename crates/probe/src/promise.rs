//! What each check stands for.

use serde::{Deserialize, Serialize};

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Who the processes are, and what they may do.
    Rights,
    /// What the kernel lets them call.
    Kernel,
    /// What they see of the host.
    Host,
    /// What they can write.
    Files,
    /// What they can reach.
    Network,
    /// How much they can use.
    Limits,
    /// What has to work.
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

/// What a check stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// The check's name.
    pub id: &'static str,
    /// What it is about.
    pub category: Category,
    /// What is promised.
    pub text: &'static str,
    /// What to do when it does not hold.
    pub mend: &'static str,
}

/// The check named `id`.
#[must_use]
pub fn promise(id: &str) -> Option<&'static Promise> {
    PROMISES.iter().find(|promise| promise.id == id)
}

const fn of(category: Category, id: &'static str, text: &'static str, mend: &'static str) -> Promise {
    Promise {
        id,
        category,
        text,
        mend,
    }
}

const PRESET: &str =
    "run tasks with the preset as it is: whatever changes this field takes the protection away";
const ENGINE: &str = "the engine or its host gives more than was asked for; compare with `sandbox doctor` and the engine's containers.conf";
const PROXY_ONLY: &str = "run tasks with the network sandbox (`network_sandbox: true`, which is the default), or without a network";
const IMAGE: &str = "repair the program in the image";

/// Every check, in the order in which they are told.
pub const PROMISES: &[Promise] = &[
    of(
        Category::Rights,
        "user_is_sandbox",
        "commands run as the user that was asked for, in its group alone",
        PRESET,
    ),
    of(
        Category::Rights,
        "user_not_root",
        "no id of the process is root's",
        PRESET,
    ),
    of(
        Category::Rights,
        "capabilities",
        "no process has or can get another capability than was asked for",
        PRESET,
    ),
    of(
        Category::Rights,
        "no_new_privileges",
        "no program gives more rights than its caller has",
        PRESET,
    ),
    of(
        Category::Rights,
        "sudo_blocked",
        "sudo, su and their like give nothing",
        "leave no-new-privileges on, or remove these programs from the image",
    ),
    of(
        Category::Rights,
        "setuid_blocked",
        "set-user-id programs run as their caller",
        "leave no-new-privileges on",
    ),
    of(
        Category::Kernel,
        "seccomp_filter",
        "system calls are filtered",
        "use a podman and a kernel with seccomp, and no profile of your own that lets everything through",
    ),
    of(
        Category::Kernel,
        "user_namespace_refused",
        "no user namespace can be made",
        "leave the sandbox's own filter of system calls on",
    ),
    of(
        Category::Kernel,
        "raw_sockets_refused",
        "no raw or packet socket can be opened",
        "do not add the capability NET_RAW",
    ),
    of(
        Category::Kernel,
        "foreign_sockets_refused",
        "no socket of a family can be opened that leaves the network namespace (AF_VSOCK) or that no task needs",
        "leave the sandbox's own filter of system calls on",
    ),
    of(
        Category::Kernel,
        "mount_refused",
        "nothing can be mounted",
        "do not add the capability SYS_ADMIN",
    ),
    of(
        Category::Kernel,
        "pivot_root_refused",
        "the root cannot be exchanged",
        "do not add the capability SYS_ADMIN",
    ),
    of(
        Category::Kernel,
        "chroot_refused",
        "the root cannot be moved",
        "do not add the capability SYS_CHROOT",
    ),
    of(
        Category::Kernel,
        "modules_refused",
        "no kernel module can be loaded",
        "do not add the capability SYS_MODULE",
    ),
    of(
        Category::Kernel,
        "reboot_refused",
        "the machine's keyboard and power are out of reach",
        "do not add the capability SYS_BOOT",
    ),
    of(
        Category::Kernel,
        "clock_refused",
        "the clock cannot be set",
        "do not add the capability SYS_TIME",
    ),
    of(
        Category::Kernel,
        "device_nodes_refused",
        "no device node can be made",
        "do not add the capability MKNOD",
    ),
    of(
        Category::Host,
        "namespaces_own",
        "network, processes, mounts, IPC and names are the container's own",
        ENGINE,
    ),
    of(
        Category::Host,
        "processes_own",
        "no process of the host is in sight",
        ENGINE,
    ),
    of(
        Category::Host,
        "proc_sys_readonly",
        "no kernel setting can be written",
        ENGINE,
    ),
    of(
        Category::Host,
        "sys_readonly",
        "nothing below /sys can be written",
        ENGINE,
    ),
    of(
        Category::Host,
        "cgroup_readonly",
        "the container cannot change its own limits",
        ENGINE,
    ),
    of(
        Category::Host,
        "masked_paths",
        "what /proc and /sys tell of the host's memory, keys and firmware is hidden",
        ENGINE,
    ),
    of(
        Category::Host,
        "kernel_log_hidden",
        "the kernel's log cannot be read",
        "do not add the capability SYSLOG or devices of the host",
    ),
    of(
        Category::Host,
        "devices_minimal",
        "/dev has the harmless devices alone",
        "do not add devices of the host",
    ),
    of(
        Category::Host,
        "engine_socket_absent",
        "no engine's socket is in reach",
        "do not mount an engine's socket, or a folder that holds one",
    ),
    of(
        Category::Host,
        "hosts_file_clean",
        "the hosts file says nothing of the host",
        "do not mount a hosts file, and add no names that lead to the host",
    ),
    of(
        Category::Host,
        "environment_clean",
        "no variable is there that nobody set for the container",
        ENGINE,
    ),
    of(
        Category::Files,
        "root_readonly",
        "the root file system cannot be written",
        PRESET,
    ),
    of(
        Category::Files,
        "etc_readonly",
        "/etc cannot be written, because its file system is read-only",
        PRESET,
    ),
    of(
        Category::Files,
        "usr_readonly",
        "/usr cannot be written, because its file system is read-only",
        PRESET,
    ),
    of(
        Category::Files,
        "mounts_bounded",
        "nothing else of the host can be written than what was mounted for it",
        ENGINE,
    ),
    of(
        Category::Files,
        "memory_bounded_files",
        "every file system in memory has its size, and is full at it",
        PRESET,
    ),
    of(
        Category::Files,
        "scratch_noexec",
        "no program can be executed from the folders in memory",
        PRESET,
    ),
    of(
        Category::Files,
        "sandbox_files_kept",
        "what the sandbox mounts cannot be changed from inside",
        "do not mount over the sandbox's files",
    ),
    of(
        Category::Files,
        "private_keys_absent",
        "no private key is among what the sandbox mounts",
        "tell the maintainers: this must not happen",
    ),
    of(
        Category::Network,
        "interfaces_bounded",
        "there is no other interface than loopback and that to the proxy",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "no_route_out",
        "there is no default route",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "ipv6_absent",
        "no interface has an IPv6 address",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "ipv6_stays_off",
        "IPv6 cannot be turned on",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "tcp_out_refused",
        "the kernel refuses connections to anywhere else",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "udp_out_refused",
        "the kernel refuses datagrams to anywhere else",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "ping_out_refused",
        "the kernel refuses echo requests to anywhere else",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "metadata_refused",
        "the cloud's metadata service is out of reach",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "resolvers_refused",
        "no other name server is in reach, over UDP or TCP",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "neighbours_absent",
        "no address of the own network answers but the proxy's",
        PROXY_ONLY,
    ),
    of(
        Category::Network,
        "proxy_answers",
        "every name is the proxy, which refuses what is not permitted",
        "look at the network log of the run, and at `sandbox doctor`",
    ),
    of(
        Category::Limits,
        "process_limits",
        "the limits on each process are in force",
        PRESET,
    ),
    of(
        Category::Limits,
        "processes_bounded",
        "a fork bomb ends at the limit of processes",
        "use an engine that can limit processes: rootless podman needs version 2 of control groups",
    ),
    of(
        Category::Limits,
        "memory_bounded",
        "whoever takes more memory than the limit is killed",
        "use an engine that can limit memory: rootless podman needs version 2 of control groups",
    ),
    of(
        Category::Limits,
        "timeout_enforced",
        "what does not end in its time is ended, with all its processes",
        "look at the engine: it did not end a container in time",
    ),
    of(
        Category::Works,
        "tmp_writable",
        "/tmp can be written",
        "give the container a folder in memory at /tmp",
    ),
    of(
        Category::Works,
        "home_writable",
        "the home folder can be written",
        "give the container a folder in memory at its home",
    ),
    of(
        Category::Works,
        "exit_code_preserved",
        "exit codes come back as they are",
        "look at the engine: it lost an exit code",
    ),
    of(Category::Works, "bash_available", "bash works", IMAGE),
    of(Category::Works, "python_available", "Python 3 works", IMAGE),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_plain() {
        let names: BTreeSet<&str> = PROMISES.iter().map(|promise| promise.id).collect();
        assert_eq!(names.len(), PROMISES.len());
        for promise in PROMISES {
            assert!(
                promise
                    .id
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{}",
                promise.id
            );
            assert!(!promise.text.is_empty() && !promise.mend.is_empty());
        }
    }

    #[test]
    fn the_json_form_of_a_category_is_its_name() {
        for promise in PROMISES {
            let json = serde_json::to_string(&promise.category).unwrap();
            assert_eq!(json, format!("\"{}\"", promise.category.as_str()));
        }
    }
}
