//! Resource limits.

use std::time::Duration;

use super::{ByteSize, Cpus, InvalidSpec};

/// Resource limits of a task. `None` means no limit by the sandbox; the engine's defaults apply. By
/// default everything is `None`.
///
/// ```
/// use std::time::Duration;
///
/// use sandbox::{ByteSize, ResourceLimits};
///
/// let limits = ResourceLimits::default().timeout(Duration::from_mins(10)).memory(ByteSize::gib(4));
/// // An amount, or `None` for no limit.
/// let without = ResourceLimits::untrusted().pids(None);
/// # assert!(limits.validate().is_ok() && without.validate().is_ok());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct ResourceLimits {
    /// Wall-clock time of one execution, which is stopped when it expires.
    pub timeout: Option<Duration>,
    /// Memory. Nothing is swapped out, unless [`Isolation::swap`](crate::Isolation::swap) permits
    /// it.
    pub memory: Option<ByteSize>,
    /// Processors.
    pub cpus: Option<Cpus>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// The size of the root file system. With an engine on btrfs it includes the image; on XFS only
    /// what is written on top of it, without the names and attributes of files. Mounts do not
    /// count.
    ///
    /// It is an error if the engine's storage has no quotas, see
    /// [`EngineFacts::disk_limits`](crate::diagnostics::EngineFacts::disk_limits), and for images
    /// with volumes of their own. [`Seccomp::Default`](crate::isolation::Seccomp::Default) and
    /// [`Seccomp::Unconfined`](crate::isolation::Seccomp::Unconfined) are errors too, because a
    /// task could then create a folder that no quota counts. A custom profile must prevent that as
    /// well.
    pub disk: Option<ByteSize>,
}

impl ResourceLimits {
    /// The smallest memory limit that an engine starts a container with: 6 MiB.
    const MIN_MEMORY: ByteSize = ByteSize::mib(6);
    /// Less does not even hold the files that the engine itself writes into a container.
    const MIN_DISK: ByteSize = ByteSize::mib(1);

    /// For an untrusted command: one processor, 512 MiB, 100 processes, one minute.
    #[must_use]
    pub fn untrusted() -> Self {
        Self {
            timeout: Some(Duration::from_mins(1)),
            memory: Some(ByteSize::mib(512)),
            cpus: Some(Cpus::ONE),
            pids: Some(100),
            // Its root file system is read-only.
            disk: None,
        }
    }

    /// Sets [`timeout`](field@Self::timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets [`memory`](field@Self::memory).
    #[must_use]
    pub fn memory(mut self, memory: impl Into<Option<ByteSize>>) -> Self {
        self.memory = memory.into();
        self
    }

    /// Sets [`cpus`](field@Self::cpus).
    #[must_use]
    pub fn cpus(mut self, cpus: impl Into<Option<Cpus>>) -> Self {
        self.cpus = cpus.into();
        self
    }

    /// Sets [`pids`](field@Self::pids).
    #[must_use]
    pub fn pids(mut self, pids: impl Into<Option<u32>>) -> Self {
        self.pids = pids.into();
        self
    }

    /// Sets [`disk`](field@Self::disk).
    #[must_use]
    pub fn disk(mut self, disk: impl Into<Option<ByteSize>>) -> Self {
        self.disk = disk.into();
        self
    }

    /// Checks everything that can be checked without the engine.
    ///
    /// # Errors
    ///
    /// When nothing could run within a limit: a timeout of 0, less than 6 MiB of memory or 1 MiB of
    /// disk, no process.
    pub fn validate(&self) -> Result<(), InvalidSpec> {
        let invalid =
            |field: &str, problem: &str| Err(InvalidSpec::new(format!("resource_limits.{field}"), problem));
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return invalid("timeout", "must be longer than 0 seconds");
        }
        if self.memory.is_some_and(|memory| memory < Self::MIN_MEMORY) {
            return invalid("memory", "must be at least 6m");
        }
        if self.pids == Some(0) {
            return invalid("pids_limit", "must be at least 1");
        }
        if self.disk.is_some_and(|disk| disk < Self::MIN_DISK) {
            return invalid("disk", "must be at least 1m");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_under_which_nothing_runs_is_refused() {
        let none = ResourceLimits::default();
        for (limits, field) in [
            (none.timeout(Duration::ZERO), Some("timeout")),
            (none.memory(ByteSize::kib(4)), Some("memory")),
            (none.pids(0), Some("pids_limit")),
            (none.disk(ByteSize::kib(4)), Some("disk")),
            (none, None),
        ] {
            let error = limits.validate().err().map(|error| error.field().to_owned());
            assert_eq!(error, field.map(|field| format!("resource_limits.{field}")));
        }
    }
}
