//! The engine's report about itself and its host, for diagnostics.

use http::Method;
use serde::Deserialize;

use crate::connection::{CALL_DEADLINE, Engine};
use crate::error::EngineError;
use crate::libpod::Call;

/// The engine's report about itself and its host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineFacts {
    /// Whether it runs without root.
    pub rootless: bool,
    /// The version of control groups: `v1` or `v2`.
    pub cgroup_version: String,
    /// The manager of its control groups: `systemd` or `cgroupfs`.
    pub cgroup_manager: String,
    /// The backend of its networks: `netavark` or `cni`.
    pub network_backend: String,
    /// The runtime of its containers, such as `crun`.
    pub runtime: String,
    /// The version of the runtime, such as `1.21`; empty if unknown.
    pub runtime_version: String,
    /// The kernel release of the engine's host, such as `6.12.85+deb13-amd64`.
    pub kernel: String,
    /// The storage driver of its images, such as `overlay`.
    pub storage_driver: String,
    /// The file system of its storage, such as `xfs`, if the driver reports it; empty otherwise.
    pub storage_file_system: String,
    /// Whether the kernel filters system calls.
    pub seccomp: bool,
    /// The installed programs that connect networks of a rootless engine.
    pub rootless_network_programs: Vec<String>,
}

impl EngineFacts {
    /// How to give a rootless engine control groups, and so limits on memory, processors and
    /// processes.
    pub const DELEGATION: &str = "boot with version 2 of control groups, start the engine's service in a systemd user session \
                                  (`loginctl enable-linger USER`), and let systemd delegate control groups to it (`Delegate=cpu memory \
                                  pids` for `user@.service`); or use the engine of root, or leave the limit out";
}

impl Engine {
    /// Requests the engine's report about itself.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn facts(&self) -> Result<EngineFacts, EngineError> {
        let object = self.libpod().socket().display().to_string();
        let call = Call {
            operation: "ask the engine at",
            object: &object,
            method: Method::GET,
            path: "/info".to_owned(),
            body: None,
            deadline: Some(CALL_DEADLINE),
        };
        Ok(self.libpod().json::<Info>(call).await?.into())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Info {
    host: Host,
    store: Store,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Host {
    cgroup_version: String,
    cgroup_manager: String,
    network_backend: String,
    oci_runtime: Runtime,
    kernel: String,
    security: Security,
    slirp4netns: Program,
    pasta: Program,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Security {
    rootless: bool,
    seccomp_enabled: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Runtime {
    name: String,
    /// Its output of several lines; the first is `crun version 1.21`.
    version: String,
}

impl Runtime {
    fn number(&self) -> String {
        let line = self.version.lines().next().unwrap_or_default();
        line.split_whitespace().last().unwrap_or_default().to_owned()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Program {
    executable: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Store {
    graph_driver_name: String,
    graph_status: GraphStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GraphStatus {
    #[serde(rename = "Backing Filesystem")]
    backing_file_system: String,
}

impl From<Info> for EngineFacts {
    fn from(Info { host, store }: Info) -> Self {
        let programs = [host.pasta.executable, host.slirp4netns.executable];
        Self {
            rootless: host.security.rootless,
            cgroup_version: host.cgroup_version,
            cgroup_manager: host.cgroup_manager,
            network_backend: host.network_backend,
            runtime_version: host.oci_runtime.number(),
            runtime: host.oci_runtime.name,
            kernel: host.kernel,
            storage_driver: store.graph_driver_name,
            storage_file_system: store.graph_status.backing_file_system,
            seccomp: host.security.seccomp_enabled,
            rootless_network_programs: programs.into_iter().filter(|program| !program.is_empty()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_both_versions_are_read_and_all_optional() {
        let old = r#"{"host": {"cgroupVersion": "v1", "cgroupManager": "cgroupfs", "networkBackend": "netavark", "ociRuntime": {"name": "crun",
            "version": "crun version 1.8.1\ncommit: f8a096be\n+SYSTEMD"}, "kernel": "6.1.0-37-amd64",
            "security": {"rootless": false, "seccompEnabled": true},
            "slirp4netns": {"executable": "/usr/bin/slirp4netns"}}, "store": {"graphDriverName": "overlay",
            "graphStatus": {"Backing Filesystem": "extfs", "Supports d_type": "true"}}}"#;
        let facts = EngineFacts::from(serde_json::from_str::<Info>(old).unwrap());
        let expected = EngineFacts {
            rootless: false,
            cgroup_version: "v1".to_owned(),
            cgroup_manager: "cgroupfs".to_owned(),
            network_backend: "netavark".to_owned(),
            runtime: "crun".to_owned(),
            runtime_version: "1.8.1".to_owned(),
            kernel: "6.1.0-37-amd64".to_owned(),
            storage_driver: "overlay".to_owned(),
            storage_file_system: "extfs".to_owned(),
            seccomp: true,
            rootless_network_programs: vec!["/usr/bin/slirp4netns".to_owned()],
        };
        assert_eq!(facts, expected);
        let new = r#"{"host": {"security": {"rootless": true}, "slirp4netns": {"executable": ""},
            "pasta": {"executable": "/usr/bin/pasta"}}}"#;
        let facts = EngineFacts::from(serde_json::from_str::<Info>(new).unwrap());
        assert!(facts.rootless);
        assert_eq!(facts.rootless_network_programs, ["/usr/bin/pasta"]);
        assert_eq!(EngineFacts::from(serde_json::from_str::<Info>("{}").unwrap()), EngineFacts::default());
    }
}
