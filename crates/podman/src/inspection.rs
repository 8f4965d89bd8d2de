//! The engine's description of a container: only the fields that we verify or use.
//!
//! Read from podman's own inspect, which reports the actual capabilities of the process. Every
//! field is required: an answer without one is invalid. `null` is an empty list.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Deserializer};

/// A container, as described by the engine.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Inspection {
    /// The image's id, without `sha256:`.
    pub image: String,
    /// The first program: the engine's own PID 1 if one was requested.
    pub path: String,
    /// Its runtime: a name, or a path if the engine was configured with one.
    #[serde(rename = "OCIRuntime")]
    pub runtime: String,
    /// Path, for the engine's service, of the runtime's configuration, once the container is set
    /// up.
    #[serde(default, rename = "OCIConfigPath")]
    pub oci_config_path: String,
    /// The requested `AppArmor` profile; empty if there is none.
    #[serde(default, rename = "AppArmorProfile")]
    pub apparmor_profile: String,
    /// The arguments of the first program.
    #[serde(deserialize_with = "nullable")]
    pub args: Vec<String>,
    /// Its process.
    pub state: ContainerState,
    /// The effective capabilities of the process, such as `CAP_CHOWN`.
    #[serde(deserialize_with = "nullable")]
    pub effective_caps: Vec<String>,
    /// The bounding set of capabilities.
    #[serde(deserialize_with = "nullable")]
    pub bounding_caps: Vec<String>,
    /// Its mounts.
    #[serde(deserialize_with = "nullable")]
    pub mounts: Vec<MountFacts>,
    /// Its networks.
    pub network_settings: NetworkSettings,
    /// The configuration of the process.
    pub config: ConfigFacts,
    /// Its bindings to the host and its confinement.
    pub host_config: BindFacts,
}

impl Inspection {
    /// The name of its runtime.
    #[must_use]
    pub fn runtime_name(&self) -> &str {
        self.runtime.rsplit('/').next().unwrap_or_default()
    }
}

/// The process of a container.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ContainerState {
    /// Such as `created`, `running` or `exited`.
    pub status: String,
    /// Whether a process was killed for lack of memory.
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
    /// Its pid in the engine's namespace; 0 if there is no process.
    pub pid: u32,
    /// The same for its monitor, the process that holds its streams and records its end.
    #[serde(default)]
    pub conmon_pid: u32,
    /// 0 before its end; negative if unknown to the engine.
    pub exit_code: i64,
    /// The year 1 before its end.
    finished_at: String,
}

impl ContainerState {
    /// Whether the engine knows that the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.is_running() && !self.finished_at.starts_with("0001-")
    }

    /// Whether the engine reports a process.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.status.as_str(), "running" | "paused" | "stopping")
    }
}

/// A mount besides the root file system.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MountFacts {
    /// `bind`, `volume`, `tmpfs` and so on.
    #[serde(rename = "Type")]
    pub kind: String,
    /// The mounted path or volume.
    pub source: String,
    /// Path in the container.
    pub destination: String,
    /// Whether it can be written.
    #[serde(rename = "RW")]
    pub writable: bool,
    /// The name of a volume.
    #[serde(default)]
    pub name: String,
    /// Mount options of a bind mount, and folders of an overlay.
    #[serde(default, deserialize_with = "nullable")]
    pub options: Vec<String>,
}

/// The networks a container is on.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkSettings {
    /// Absent for a container without any.
    #[serde(default, deserialize_with = "nullable")]
    pub networks: BTreeMap<String, NetworkFacts>,
}

/// The connection of a container to a network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NetworkFacts {
    /// `None` before the network is set up.
    #[serde(rename = "IPAddress", deserialize_with = "address")]
    pub address: Option<Ipv4Addr>,
    /// Empty if the network has no IPv6.
    #[serde(rename = "GlobalIPv6Address")]
    pub ipv6_address: String,
}

/// The configuration of the process.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ConfigFacts {
    /// The user; empty means root.
    pub user: String,
    /// Environment variables, `NAME=value`.
    #[serde(deserialize_with = "nullable")]
    pub env: Vec<String>,
    /// The working directory.
    pub working_dir: String,
    /// Labels of the container.
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    /// The engine's own and, unless it drops them, the requested ones. Podman omits an empty list.
    #[serde(default, deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    /// Whether it has a terminal.
    pub tty: bool,
    /// Whether it has a stdin.
    pub open_stdin: bool,
    /// The host name that it sees.
    pub hostname: String,
    /// The signal that requests its end.
    pub stop_signal: SignalFact,
}

/// A signal, in the format of either version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum SignalFact {
    /// Such as 15.
    Number(u64),
    /// Such as `SIGTERM`.
    Name(String),
}

impl fmt::Debug for ConfigFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            self.env.iter().map(|variable| variable.split('=').next().unwrap_or_default()).collect();
        f.debug_struct("ConfigFacts").field("user", &self.user).field("env", &names).finish_non_exhaustive()
    }
}

/// How the container is bound to its host and confined.
#[expect(clippy::struct_excessive_bools, reason = "the engine's words, not ours")]
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindFacts {
    /// `none`, `bridge` and so on.
    pub network_mode: String,
    /// The process namespace; empty means its own.
    pub pid_mode: String,
    /// The IPC namespace.
    pub ipc_mode: String,
    /// The UTS namespace.
    #[serde(rename = "UTSMode")]
    pub uts_mode: String,
    /// The user namespace; empty means the host's.
    pub userns_mode: String,
    /// Whether it is unconfined.
    pub privileged: bool,
    /// Whether the root file system is read-only.
    pub readonly_rootfs: bool,
    /// Omitted by podman 4 if `false`.
    #[serde(default)]
    pub init: bool,
    /// Whether it is removed once its process ends.
    pub auto_remove: bool,
    /// Whether all ports of the image are published on the host.
    pub publish_all_ports: bool,
    /// The ports that are published on the host.
    #[serde(deserialize_with = "nullable")]
    pub port_bindings: BTreeMap<String, serde_json::Value>,
    /// Options of seccomp, `SELinux` and so on.
    #[serde(deserialize_with = "nullable")]
    pub security_opt: Vec<String>,
    /// Devices of the host.
    #[serde(deserialize_with = "nullable")]
    pub devices: Vec<DeviceFacts>,
    /// Supplementary groups of the process.
    #[serde(deserialize_with = "nullable")]
    pub group_add: Vec<String>,
    /// Containers whose volumes it has.
    #[serde(deserialize_with = "nullable")]
    pub volumes_from: Vec<String>,
    /// Its name servers.
    #[serde(deserialize_with = "nullable")]
    pub dns: Vec<String>,
    /// Lines of its hosts file.
    #[serde(deserialize_with = "nullable")]
    pub extra_hosts: Vec<String>,
    /// The destination of its output.
    pub log_config: LogFacts,
    /// Memory in bytes; 0 means no limit.
    pub memory: i64,
    /// Memory and swap together in bytes; 0 means no limit.
    pub memory_swap: i64,
    /// Billionths of a processor; 0: no limit.
    pub nano_cpus: i64,
    /// Processes and threads; 0: no limit.
    pub pids_limit: i64,
    /// File systems in memory: options by path.
    #[serde(deserialize_with = "nullable")]
    pub tmpfs: BTreeMap<String, String>,
    /// Bytes of `/dev/shm`.
    pub shm_size: i64,
    /// Limits on each process.
    #[serde(deserialize_with = "nullable")]
    pub ulimits: Vec<LimitFacts>,
    /// Absent without a user namespace.
    #[serde(default, rename = "IDMappings")]
    pub id_mappings: Option<IdMappings>,
}

/// A device of the host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeviceFacts {
    /// Path on the host.
    pub path_on_host: String,
    /// Path in the container.
    pub path_in_container: String,
}

/// A limit on each process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LimitFacts {
    /// Such as `RLIMIT_NOFILE`.
    pub name: String,
    /// -1 is unlimited.
    pub soft: i64,
    /// The value up to which the process may raise it.
    pub hard: i64,
}

/// Mapping of a container's users to the host: first number inside, first number outside, count,
/// separated by colons.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct IdMappings {
    /// Users.
    #[serde(deserialize_with = "nullable")]
    pub uid_map: Vec<String>,
    /// Groups.
    #[serde(deserialize_with = "nullable")]
    pub gid_map: Vec<String>,
}

/// The destination of output besides us.
#[derive(Debug, Clone, Deserialize)]
pub struct LogFacts {
    /// `none`, `k8s-file` and so on.
    #[serde(rename = "Type")]
    pub driver: String,
    /// The maximum size of its file, in human-readable form; `0B` if there is none.
    #[serde(rename = "Size")]
    pub bound: String,
}

fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(value: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

fn address<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Ipv4Addr>, D::Error> {
    let text: Option<String> = nullable(value)?;
    match text.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(serde::de::Error::custom),
    }
}
