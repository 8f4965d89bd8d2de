//! The engine's monitor of a container, `conmon`: it carries the streams and records the exit of
//! the process. If it is killed, the exit is unknown, and engines answer a wait with 0 (podman 5)
//! or never (podman 4).

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, inotify, openat2};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe;

use super::kernel::Process;
use super::launcher::Exit;

/// The file in the container's bundle that tells a lack of memory.
const OUT_OF_MEMORY: &str = "oom";

/// A running monitor, and the process that it watches.
#[derive(Debug)]
pub(super) struct Monitor {
    conmon: Watched,
    process: Watched,
    /// `None` if its folders are not visible from here.
    records: Option<Records>,
}

impl Monitor {
    /// The monitor of `process`, if both are visible from here and belong to the container.
    pub(super) fn open(process: Process<'_>) -> Option<Self> {
        let proc = Path::new("/proc");
        // Opened before the check, so that the checked processes cannot be others.
        let opened = Self {
            conmon: Watched::open(process.monitor)?,
            process: Watched::open(process.pid)?,
            records: Records::open(proc, process),
        };
        (process.is_monitored(proc) && process.is_of_container(proc)).then_some(opened)
    }

    /// The exit of the process, as soon as the monitor has recorded it: the engine knows it only
    /// when it has cleaned up. Never returns where the record cannot be read.
    pub(super) async fn exit(&self) -> Exit {
        if let Some(records) = &self.records {
            self.process.ended().await;
            if let Ok(exit) = records.exit().await {
                return exit;
            }
        }
        std::future::pending().await
    }

    /// Returns when it has ended in any way.
    pub(super) async fn ended(&self) {
        self.conmon.ended().await;
    }

    /// Whether the process outlives it by `time`.
    pub(super) async fn is_outlived(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.process.ended()).await.is_err()
    }
}

/// The folders in which a monitor records an exit.
#[derive(Debug)]
struct Records {
    /// Has one file for each container, named by its id.
    exits: OwnedFd,
    bundle: OwnedFd,
    id: String,
}

impl Records {
    /// Podman passes the folders to the monitor as arguments.
    fn open(proc: &Path, process: Process<'_>) -> Option<Self> {
        let monitor = proc.join(process.monitor.to_string());
        let line = std::fs::read(monitor.join("cmdline")).ok()?;
        let words: Vec<&str> =
            line.split(|byte| *byte == 0).map_while(|word| std::str::from_utf8(word).ok()).collect();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(monitor.join("root"), flags, Mode::empty()).ok()?;
        let folder = |option: &str| {
            let path = words.iter().skip_while(|word| **word != option).nth(1)?;
            openat2(&root, *path, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()
        };
        Some(Self { exits: folder("--exit-dir")?, bundle: folder("-b")?, id: process.id.to_owned() })
    }

    /// The recorded exit; waits for it.
    async fn exit(&self) -> io::Result<Exit> {
        let events = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        // The file appears under its name when it is complete.
        let folder = format!("/proc/self/fd/{}", self.exits.as_raw_fd());
        inotify::add_watch(&events, folder, inotify::WatchFlags::MOVED_TO)?;
        let events = Watched::new(events)?;
        loop {
            match self.read() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => events.skip().await?,
                read => return read,
            }
        }
    }

    fn read(&self) -> io::Result<Exit> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.exits, &self.id, flags, Mode::empty())?;
        // Recorded before the exit.
        let oom_killed = rustix::fs::statat(&self.bundle, OUT_OF_MEMORY, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let mut text = String::new();
        File::from(file).take(16).read_to_string(&mut text)?;
        let code: u8 = text.trim_ascii_end().parse().map_err(io::Error::other)?;
        Ok(Exit { oom_killed, ..Exit::new(code.into()) })
    }
}

/// A descriptor of a process, or of events of a folder: it is not a pipe, but becomes readable like
/// one.
#[derive(Debug)]
struct Watched(pipe::Receiver);

impl Watched {
    fn open(pid: u32) -> Option<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        let process = pidfd_open(number, PidfdFlags::NONBLOCK).ok()?;
        Self::new(process).ok()
    }

    fn new(descriptor: OwnedFd) -> io::Result<Self> {
        pipe::Receiver::from_file_unchecked(File::from(descriptor)).map(Self)
    }

    /// Waits for events, and discards them.
    async fn skip(&self) -> io::Result<()> {
        self.0.readable().await?;
        match self.0.try_read(&mut [0; 4096]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
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

    /// A monitor with these arguments, and the end of its process.
    fn shell(arguments: &[&str]) -> (std::process::Child, u32) {
        #[expect(clippy::disallowed_methods, reason = "a process to watch")]
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600 & echo $!; wait"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, line.trim().parse().unwrap())
    }

    fn kill(pid: u32) {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
        rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
    }

    /// Whether `future` still waits when everything that it can do has been done.
    async fn waits(future: impl Future) -> bool {
        tokio::time::timeout(Duration::from_millis(50), future).await.is_err()
    }

    #[tokio::test]
    async fn exit_is_known_once_the_process_has_ended_and_its_exit_is_recorded() {
        for (recorded, oom, known) in [
            ("0", false, Some((0, false))),
            ("137\n", true, Some((137, true))),
            ("256", false, None),
            ("-1", false, None),
            ("", false, None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let [exits, bundle] = ["exits", "bundle"].map(|name| folder.path().join(name));
            std::fs::create_dir(&exits).unwrap();
            std::fs::create_dir(&bundle).unwrap();
            let arguments =
                ["-b", bundle.to_str().unwrap(), "-c", "0f0f", "--exit-dir", exits.to_str().unwrap()];
            let (mut child, pid) = shell(&arguments);
            let monitor = Monitor::open(Process { pid, monitor: child.id(), id: "0f0f" }).unwrap();
            let write = |name: &str, text: &str| {
                std::fs::write(exits.join("new"), text).unwrap();
                std::fs::rename(exits.join("new"), exits.join(name)).unwrap();
            };
            if oom {
                // A file that is there before anything waits for it.
                std::fs::write(bundle.join(OUT_OF_MEMORY), "").unwrap();
                write("0f0f", recorded);
                assert!(waits(monitor.exit()).await, "its process still runs");
                kill(pid);
            } else {
                kill(pid);
                let mut exit = std::pin::pin!(monitor.exit());
                assert!(waits(exit.as_mut()).await, "nothing is recorded");
                write("0e0e", "7");
                assert!(waits(exit.as_mut()).await, "the exit of another container");
                write("0f0f", recorded);
            }
            match known {
                Some((code, oom_killed)) => {
                    assert_eq!(monitor.exit().await, Exit { oom_killed, ..Exit::new(code) });
                }
                None => assert!(waits(monitor.exit()).await, "{recorded:?} is not an exit code"),
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[tokio::test]
    async fn exit_is_unknown_where_the_monitors_folders_are_not_visible() {
        let (mut child, pid) = shell(&["-b", "/none", "-c", "0f0f", "--exit-dir", "/none"]);
        let monitor = Monitor::open(Process { pid, monitor: child.id(), id: "0f0f" }).unwrap();
        assert!(monitor.records.is_none());
        kill(pid);
        assert!(waits(monitor.exit()).await);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// A shell replaces the monitor, and its child replaces the container's process.
    #[tokio::test]
    async fn monitor_of_this_container_is_watched_and_a_foreign_one_is_not() {
        let (mut child, pid) = shell(&["-c", "0f0f"]);
        let process = |id, pid| Process { pid, monitor: child.id(), id };
        assert!(Monitor::open(process("0f", pid)).is_none());
        assert!(Monitor::open(process("0f0f", 0)).is_none());
        assert!(Monitor::open(process("0f0f", std::process::id())).is_none());
        let monitor = Monitor::open(process("0f0f", pid)).unwrap();
        assert!(waits(monitor.ended()).await);
        child.kill().unwrap();
        monitor.ended().await;
        child.wait().unwrap();
        monitor.ended().await;
        assert!(monitor.is_outlived(Duration::from_millis(50)).await);
        kill(pid);
        assert!(!monitor.is_outlived(Duration::from_mins(1)).await);
    }
}
