//! The engine's monitor of a container, `conmon`: it carries the streams and writes down how the process ended. When it is killed,
//! nobody can say how the process ended any more, and engines answer a wait with 0 (podman 5) or never (podman 4).

use std::fs::{self, File};
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe;

/// A monitor that runs: no pipe, but it becomes readable like one, which is all that this type needs.
#[derive(Debug)]
pub(super) struct Monitor(pipe::Receiver);

impl Monitor {
    /// The process `pid`, if it is visible from here and is the monitor of the container `id`.
    pub(super) fn open(pid: u32, id: &str) -> Option<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        // The descriptor first: what it is looked at for afterwards cannot have been another process.
        let process = pidfd_open(number, PidfdFlags::NONBLOCK).ok()?;
        let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).ok()?;
        let names_it = line.split(|byte| *byte == 0).any(|word| word == id.as_bytes());
        let process = names_it.then(|| pipe::Receiver::from_file_unchecked(File::from(process)))?;
        process.ok().map(Self)
    }

    /// Returns when it has ended, in whatever way.
    pub(super) async fn ended(&self) {
        // The descriptor stays readable; an error means that nothing can be watched any more.
        if self.0.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn only_the_monitor_of_this_container_is_watched_and_its_end_is_seen() {
        #[expect(clippy::disallowed_methods, reason = "a process to watch")]
        let mut child = Command::new("sh")
            .args(["-c", "read _", "-c", "0f0f"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // Until the program runs the command line is ours.
        let line = format!("/proc/{}/cmdline", child.id());
        while !fs::read_to_string(&line).unwrap().starts_with("sh\0") {
            tokio::task::yield_now().await;
        }
        assert!(Monitor::open(child.id(), "0f").is_none());
        assert!(Monitor::open(0, "0f0f").is_none());
        let monitor = Monitor::open(child.id(), "0f0f").unwrap();
        let early = tokio::time::timeout(std::time::Duration::from_millis(50), monitor.ended()).await;
        assert!(early.is_err());
        child.kill().unwrap();
        monitor.ended().await;
        child.wait().unwrap();
        monitor.ended().await;
    }
}
