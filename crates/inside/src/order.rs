//! The order to verify.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Check;

/// The checks to run, and the guarantees. Nothing in it is secret. Omitted properties are not
/// guaranteed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Order {
    /// The checks to run.
    pub checks: Vec<Check>,
    /// The user and the group that were requested, as numbers or names; a group may be missing.
    pub user: Option<String>,
    /// The permitted capabilities, as a bit set.
    pub capabilities: u64,
    /// Whether the root file system is read-only.
    pub read_only_root: bool,
    /// The folders in memory.
    pub scratch: Vec<Scratch>,
    /// Size of `/dev/shm` in bytes; 0 if it is absent.
    pub shm_size: u64,
    /// Limits on each process.
    pub limits: Vec<ProcessLimit>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u32>,
    /// The container's name.
    pub hostname: String,
    /// Other permitted names in the hosts file.
    pub hosts: BTreeSet<String>,
    /// Paths of devices that were requested.
    pub devices: BTreeSet<String>,
    /// Paths that the caller's mounts may write.
    pub writable: BTreeSet<String>,
    /// Paths mounted by the sandbox, which the container must not be able to change.
    pub owned: BTreeSet<String>,
    /// The engine's socket, by its path on the host.
    pub engine_socket: String,
    /// Names of permitted variables.
    pub variables: BTreeSet<String>,
    /// The namespaces of the sandbox: `net` to `net:[4026531840]` and so on.
    pub namespaces: BTreeMap<String, String>,
    /// Whether there is a network, with a proxy as its only other host; otherwise there is none at
    /// all.
    pub has_proxy: bool,
}

/// A folder in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scratch {
    /// Where it is.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Whether programs on it may be executed.
    pub exec: bool,
}

/// A limit on each process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessLimit {
    /// Its title in `/proc/self/limits`.
    pub title: String,
    /// The soft limit.
    pub soft: u64,
    /// The hard limit.
    pub hard: u64,
}
