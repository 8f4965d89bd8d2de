//! How much a task may use.

use std::time::Duration;

use super::InvalidSpec;

/// How much a task may use. What is `None` has no limit of ours; the engine's defaults stay.
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
}

impl ResourceLimits {
    /// The smallest memory limit that an engine starts a container with: 6 MiB.
    const LEAST_MEMORY: u64 = 6 * 1024 * 1024;

    /// For a command that nobody vouches for: one processor, 512 MiB, 100 processes, one minute.
    #[must_use]
    pub fn untrusted() -> Self {
        Self {
            timeout: Some(Duration::from_mins(1)),
            memory: Some(512 << 20),
            cpus: Some(1.0),
            pids: Some(100),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
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
            (none, None),
        ] {
            let error = limits.validate().err().map(|error| error.field().to_owned());
            assert_eq!(error, field.map(|field| format!("resource_limits.{field}")));
        }
    }
}
