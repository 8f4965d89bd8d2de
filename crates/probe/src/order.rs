//! What the probe is to do.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What the probe is to do, and what was promised. Nothing in it is secret. What is left out was not promised.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Order {
    /// The checks to make, by name.
    pub checks: Vec<String>,
    /// The user and the group that were asked for, as numbers or names; a group may be missing.
    pub user: Option<String>,
    /// The capabilities that may be there, as a bit set.
    pub capabilities: u64,
    /// Whether the root file system is read-only.
    pub read_only_root: bool,
    /// The folders in memory.
    pub scratch: Vec<Scratch>,
    /// Bytes of `/dev/shm`; 0: there is none.
    pub shm_size: u64,
    /// Limits on each process.
    pub limits: Vec<ProcessLimit>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u32>,
    /// The container's name.
    pub hostname: String,
    /// Names that the hosts file may have beside it.
    pub hosts: BTreeSet<String>,
    /// Paths of devices that were asked for.
    pub devices: BTreeSet<String>,
    /// Paths that the caller's mounts may write.
    pub writable: BTreeSet<String>,
    /// Paths that the container gets from the sandbox, which nobody in it may change.
    pub owned: BTreeSet<String>,
    /// The engine's socket, as the host names it.
    pub engine_socket: String,
    /// Names of variables that may be there.
    pub variables: BTreeSet<String>,
    /// The namespaces of whoever asks: `net` to `net:[4026531840]` and so on.
    pub namespaces: BTreeMap<String, String>,
    /// Whether there is a network, with a proxy as its only other host. Without, there is none at all.
    pub has_proxy: bool,
}

/// A folder in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scratch {
    /// Where it is.
    pub path: String,
    /// Bytes.
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
