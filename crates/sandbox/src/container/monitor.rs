//! The engine's monitor of a container, `conmon`: it carries the streams and records the exit of
//! the process. If it is killed, the exit is unknown, and engines answer a wait with 0 (podman 5)
//! or never (podman 4).

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe;

use super::kernel::Process;

/// A running monitor, and the process that it watches.
#[derive(Debug)]
pub(super) struct Monitor {
    monitor: Watched,
    process: Watched,
}

impl Monitor {
    /// The monitor of `process`, if both are visible from here and belong to the container.
    pub(super) fn open(process: Process<'_>) -> Option<Self> {
        let proc = Path::new("/proc");
        // Opened before the check, so that the checked processes cannot be others.
        let opened = Self { monitor: Watched::open(process.monitor)?, process: Watched::open(process.pid)? };
        (process.is_monitored(proc) && process.is_of_container(proc)).then_some(opened)
    }

    /// Returns when it has ended in any way.
    pub(super) async fn ended(&self) {
        self.monitor.ended().await;
    }

    /// Whether the process outlives it by `time`.
    pub(super) async fn is_outlived(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.process.ended()).await.is_err()
    }
}

/// A process descriptor: it is not a pipe, but becomes readable like one, which is all that this
/// type needs.
#[derive(Debug)]
struct Watched(pipe::Receiver);

impl Watched {
    fn open(pid: u32) -> Option<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        let process = pidfd_open(number, PidfdFlags::NONBLOCK).ok()?;
        pipe::Receiver::from_file_unchecked(File::from(process)).ok().map(Self)
    }

    async fn ended(&self) {
        // The descriptor stays readable; an error means that it can no longer be watched.
        if self.0.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    /// A shell replaces the monitor, and its child replaces the container's process.
    #[tokio::test]
    async fn monitor_of_this_container_is_watched_and_a_foreign_one_is_not() {
        #[expect(clippy::disallowed_methods, reason = "a process to watch")]
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600 & echo $!; wait", "-c", "0f0f"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid: u32 = line.trim().parse().unwrap();
        let process = |id, pid| Process { pid, monitor: child.id(), id };
        assert!(Monitor::open(process("0f", pid)).is_none());
        assert!(Monitor::open(process("0f0f", 0)).is_none());
        assert!(Monitor::open(process("0f0f", std::process::id())).is_none());
        let monitor = Monitor::open(process("0f0f", pid)).unwrap();
        let early = tokio::time::timeout(Duration::from_millis(50), monitor.ended()).await;
        assert!(early.is_err());
        child.kill().unwrap();
        monitor.ended().await;
        child.wait().unwrap();
        monitor.ended().await;
        assert!(monitor.is_outlived(Duration::from_millis(50)).await);
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
        rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
        assert!(!monitor.is_outlived(Duration::from_mins(1)).await);
    }
}
