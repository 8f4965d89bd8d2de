//! Limits on reading a task's repository.

use std::time::Duration;

/// The resources that an import may use. Unless a field says otherwise, exceeding one is an error,
/// and nothing is imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Files of objects: loose objects and packs.
    pub object_files: u64,
    /// Bytes of all these files together.
    pub object_bytes: u64,
    /// Refs in the task's view.
    pub refs: u64,
    /// Refs that the task changed. If there are more, the branch at `HEAD` and the first of the
    /// others are imported, and the rest is not.
    pub changed_refs: u64,
    /// Bytes of a file that is read as a whole: `packed-refs`, the index.
    pub file_bytes: u64,
    /// Bytes of the configuration.
    pub config_bytes: u64,
    /// Settings in the configuration.
    pub settings: usize,
    /// Bytes of memory for each git process.
    pub memory: u64,
    /// Time for all work before the first write.
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
