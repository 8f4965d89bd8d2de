//! What the engine says a container is: the fields that we verify or use, and no other.
//!
//! Read from podman's own inspect, which names the capabilities of the process as they are. Every field is required: an engine
//! that leaves one out gave no answer. `null` is how it writes an empty list.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Deserializer};

/// A container as the engine describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Inspection {
    /// The image's id, without `sha256:`.
    pub(crate) image: String,
    /// What is executed first: the engine's own PID 1 where one was asked for.
    pub(crate) path: String,
    /// What runs it: a name, or a path where the engine was given one.
    #[serde(rename = "OCIRuntime")]
    pub(crate) runtime: String,
    /// Where the engine's service sees what it told the runtime; once the container stands.
    #[serde(default, rename = "OCIConfigPath")]
    pub(crate) oci_config_path: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) args: Vec<String>,
    pub(crate) state: State,
    #[serde(deserialize_with = "nullable")]
    pub(crate) effective_caps: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) bounding_caps: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) mounts: Vec<MountFacts>,
    pub(crate) network_settings: NetworkSettings,
    pub(crate) config: ConfigFacts,
    pub(crate) host_config: BindFacts,
}

impl Inspection {
    /// The name of the program that runs it.
    pub(crate) fn runtime_name(&self) -> &str {
        self.runtime.rsplit('/').next().unwrap_or_default()
    }
}

/// Where a container stands.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct State {
    pub(crate) status: String,
    #[serde(rename = "OOMKilled")]
    pub(crate) oom_killed: bool,
    /// As the engine's process namespace numbers it; 0 where there is no process.
    pub(crate) pid: u32,
    /// Likewise, of the process that holds its streams and writes down how it ended.
    #[serde(default)]
    pub(crate) conmon_pid: u32,
    /// 0 before its end; negative where the engine does not know.
    pub(crate) exit_code: i64,
    /// The year 1 before its end.
    finished_at: String,
}

impl State {
    /// Whether the engine knows that the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        !self.is_running() && !self.finished_at.starts_with("0001-")
    }

    /// Whether the engine says that there is a process.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.status.as_str(), "running" | "paused" | "stopping")
    }
}

/// A mount that is not part of the root file system's own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct MountFacts {
    #[serde(rename = "Type")]
    pub(crate) kind: String,
    pub(crate) source: String,
    pub(crate) destination: String,
    #[serde(rename = "RW")]
    pub(crate) writable: bool,
    /// Of a volume.
    #[serde(default)]
    pub(crate) name: String,
    /// Of a bind mount: how it is mounted, and of an overlay its folders.
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) options: Vec<String>,
}

/// The networks a container is on.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct NetworkSettings {
    /// Absent for a container without any.
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) networks: BTreeMap<String, NetworkFacts>,
}

/// The place of a container on a network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct NetworkFacts {
    /// `None` before the network is set up.
    #[serde(rename = "IPAddress", deserialize_with = "address")]
    pub(crate) address: Option<Ipv4Addr>,
    /// Empty where the network has no IPv6.
    #[serde(rename = "GlobalIPv6Address")]
    pub(crate) ipv6_address: String,
}

/// What the process is given.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ConfigFacts {
    pub(crate) user: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) env: Vec<String>,
    pub(crate) working_dir: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) labels: BTreeMap<String, String>,
    /// The engine's own and, unless it drops them, those that were asked for. Podman leaves out an empty list.
    #[serde(default, deserialize_with = "nullable")]
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) tty: bool,
    pub(crate) open_stdin: bool,
    pub(crate) hostname: String,
    pub(crate) stop_signal: SignalFact,
}

/// A signal, as one version or the other tells it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum SignalFact {
    Number(u64),
    Name(String),
}

impl fmt::Debug for ConfigFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self
            .env
            .iter()
            .map(|variable| variable.split('=').next().unwrap_or_default())
            .collect();
        f.debug_struct("ConfigFacts")
            .field("user", &self.user)
            .field("env", &names)
            .finish_non_exhaustive()
    }
}

/// How the container is bound to its host and confined.
#[expect(clippy::struct_excessive_bools, reason = "the engine's words, not ours")]
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct BindFacts {
    pub(crate) network_mode: String,
    pub(crate) pid_mode: String,
    pub(crate) ipc_mode: String,
    #[serde(rename = "UTSMode")]
    pub(crate) uts_mode: String,
    pub(crate) userns_mode: String,
    pub(crate) privileged: bool,
    pub(crate) readonly_rootfs: bool,
    /// Left out by podman 4 when it is `false`.
    #[serde(default)]
    pub(crate) init: bool,
    pub(crate) auto_remove: bool,
    pub(crate) publish_all_ports: bool,
    #[serde(deserialize_with = "nullable")]
    pub(crate) port_bindings: BTreeMap<String, serde_json::Value>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) security_opt: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) devices: Vec<DeviceFacts>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) group_add: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) volumes_from: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) dns: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) extra_hosts: Vec<String>,
    pub(crate) log_config: LogFacts,
    pub(crate) memory: i64,
    pub(crate) memory_swap: i64,
    pub(crate) nano_cpus: i64,
    pub(crate) pids_limit: i64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) tmpfs: BTreeMap<String, String>,
    pub(crate) shm_size: i64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ulimits: Vec<LimitFacts>,
    /// Absent without a user namespace.
    #[serde(default, rename = "IDMappings")]
    pub(crate) id_mappings: Option<IdMappings>,
}

/// A device of the host.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DeviceFacts {
    pub(crate) path_on_host: String,
    pub(crate) path_in_container: String,
}

/// A limit on each process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct LimitFacts {
    /// Such as `RLIMIT_NOFILE`.
    pub(crate) name: String,
    /// -1 is unlimited.
    pub(crate) soft: i64,
    pub(crate) hard: i64,
}

/// Who the users of a container are on the host: first number inside, first number outside, how many, with colons between.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct IdMappings {
    #[serde(deserialize_with = "nullable")]
    pub(crate) uid_map: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) gid_map: Vec<String>,
}

/// Where output goes besides to us.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LogFacts {
    #[serde(rename = "Type")]
    pub(crate) driver: String,
    /// The bound of its file, as people write it; `0B` where there is none.
    #[serde(rename = "Size")]
    pub(crate) bound: String,
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
