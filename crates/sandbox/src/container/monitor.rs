//! The engine's monitor of a container, `conmon`: it carries the streams and writes down how the
//! process ended. When it is killed, it is not known any more how the process ended, and engines
//! answer a wait with 0 (podman 5) or never (podman 4).

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe;

use super::kernel::Process;

/// A monitor that runs, and the process that it watches.
#[derive(Debug)]
pub(super) struct Monitor {
    monitor: Watched,
    process: Watched,
}

impl Monitor {
    /// The monitor of `process`, if both are visible from here and the container's.
    pub(super) fn open(process: Process<'_>) -> Option<Self> {
        let proc = Path::new("/proc");
        // The descriptors first: what they are looked at for afterwards cannot have been other
        // processes.
        let opened = Self { monitor: Watched::open(process.monitor)?, process: Watched::open(process.pid)? };
        (process.is_monitored(proc) && process.is_of_container(proc)).then_some(opened)
    }

    /// Returns when it has ended, in whatever way.
    pub(super) async fn ended(&self) {
        self.monitor.ended().await;
    }

    /// Whether the process runs for `time` from now.
    pub(super) async fn is_outlived(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.process.ended()).await.is_err()
    }
}

/// A process: no pipe, but it becomes readable like one, which is all that this type needs.
#[derive(Debug)]
struct Watched(pipe::Receiver);

impl Watched {
    fn open(pid: u32) -> Option<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        let process = pidfd_open(number, PidfdFlags::NONBLOCK).ok()?;
        pipe::Receiver::from_file_unchecked(File::from(process)).ok().map(Self)
    }

    async fn ended(&self) {
        // The descriptor stays readable; an error means that nothing can be watched any more.
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

    /// A shell takes the place of the monitor, and the process that it starts takes that of the
    /// container's.
    #[tokio::test]
    async fn only_the_monitor_of_this_container_is_watched_and_its_end_is_seen() {
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
