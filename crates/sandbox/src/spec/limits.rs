//! How much a task may use.

use std::time::Duration;

use super::InvalidSpec;

/// How much a task may use. What is `None` has no limit of ours; the engine's defaults stay. By default everything is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ResourceLimits {
    /// Wall time of one execution. It is stopped when the time is over.
    pub timeout: Option<Duration>,
    /// Bytes of memory. Nothing is swapped out, unless [`Isolation::swap`](crate::Isolation::swap) says so.
    pub memory: Option<u64>,
    /// Processors, in fractions of one.
    pub cpus: Option<f64>,
    /// Processes and threads.
    pub pids: Option<u32>,
    /// Bytes that the root file system may come to: with an engine on btrfs the image counts too, on XFS what is written above it. What is
    /// written into mounts does not count. On XFS the names and attributes of files do not count either.
    ///
    /// An engine whose storage has no quotas is an error, see [`EngineFacts::disk_limits`](crate::diagnostics::EngineFacts::disk_limits); so are
    /// [`Seccomp::Default`](crate::isolation::Seccomp::Default) and [`Seccomp::Unconfined`](crate::isolation::Seccomp::Unconfined), with which a task can make a
    /// folder that no quota counts, and images with volumes of their own. A profile of yours has to refuse that too.
    pub disk: Option<u64>,
}

impl ResourceLimits {
    /// The smallest memory limit that an engine starts a container with: 6 MiB.
    const LEAST_MEMORY: u64 = 6 * 1024 * 1024;
    /// Less holds not even what the engine itself writes into a container.
    const LEAST_DISK: u64 = 1024 * 1024;

    /// For a command that nobody vouches for: one processor, 512 MiB, 100 processes, one minute.
    #[must_use]
    pub fn untrusted() -> Self {
        Self {
            timeout: Some(Duration::from_mins(1)),
            memory: Some(512 << 20),
            cpus: Some(1.0),
            pids: Some(100),
            // Its root file system is read-only.
            disk: None,
        }
    }

    /// Checks what can be checked without the engine.
    ///
    /// # Errors
    ///
    /// Where nothing could run under a limit: a timeout of 0, less than 6 MiB of memory or 1 MiB of disk, no process, processors that are not
    /// between 0.01 and 1024.
    pub fn validate(&self) -> Result<(), InvalidSpec> {
        let invalid =
            |field: &str, problem: &str| Err(InvalidSpec::new(format!("resource_limits.{field}"), problem));
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return invalid("timeout", "must be longer than 0 seconds");
        }
        if self.memory.is_some_and(|memory| memory < Self::LEAST_MEMORY) {
            return invalid("memory", "must be at least 6m");
        }
        if self.cpus.is_some_and(|cpus| !(0.01..=1024.0).contains(&cpus)) {
            return invalid("cpus", "must be between 0.01 and 1024");
        }
        if self.pids == Some(0) {
            return invalid("pids_limit", "must be at least 1");
        }
        if self.disk.is_some_and(|disk| disk < Self::LEAST_DISK) {
            return invalid("disk", "must be at least 1m");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_nothing_could_run_under_are_refused() {
        let none = ResourceLimits::default();
        for (limits, field) in [
            (
                ResourceLimits {
                    timeout: Some(Duration::ZERO),
                    ..none
                },
                Some("timeout"),
            ),
            (
                ResourceLimits {
                    memory: Some(4096),
                    ..none
                },
                Some("memory"),
            ),
            (
                ResourceLimits {
                    cpus: Some(0.0),
                    ..none
                },
                Some("cpus"),
            ),
            (
                ResourceLimits {
                    cpus: Some(f64::NAN),
                    ..none
                },
                Some("cpus"),
            ),
            (
                ResourceLimits {
                    pids: Some(0),
                    ..none
                },
                Some("pids_limit"),
            ),
            (
                ResourceLimits {
                    disk: Some(4096),
                    ..none
                },
                Some("disk"),
            ),
            (none, None),
        ] {
            let error = limits.validate().err().map(|error| error.field().to_owned());
            assert_eq!(error, field.map(|field| format!("resource_limits.{field}")));
        }
    }
}
