//! How much of what a task left is looked at.

use std::time::Duration;

/// What an import may take. What exceeds it is an error, and nothing is imported, unless it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Files of objects: loose ones and packs.
    pub object_files: u64,
    /// Bytes of all of them together.
    pub object_bytes: u64,
    /// Refs in the task's view.
    pub refs: u64,
    /// Refs that the task changed. Where there are more, the branch at `HEAD` and the first of the others come, and the rest stays behind.
    pub changed_refs: u64,
    /// Bytes of a file that is read as a whole: `packed-refs`, the index.
    pub file_bytes: u64,
    /// Bytes of the configuration.
    pub config_bytes: u64,
    /// Settings in it.
    pub settings: usize,
    /// Bytes of memory of each git.
    pub memory: u64,
    /// For all that is done before something is written.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            object_files: 1_000_000,
            object_bytes: 16 << 30,
            refs: 1_000_000,
            changed_refs: 100_000,
            file_bytes: 64 << 20,
            config_bytes: 1 << 20,
            settings: 10_000,
            memory: 4 << 30,
            time: Duration::from_mins(10),
        }
    }
}
