//! Resource limits of one command.

use serde::{Deserialize, Serialize};

/// The total that the processes of one command may use. `None`: no limit besides the container's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandLimits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u32>,
}

/// A limit of a command that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExceededLimit {
    /// On memory.
    Memory,
    /// On processes and threads.
    Pids,
}
