//! PID 1's view of a command: its subreaper and its pipes.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use sandbox_inside::{CommandLimits, End, LARGEST_CHUNK, Request};

use super::handover::{self, Handover};

/// The argument with which PID 1 starts a subreaper.
pub(super) const SUBREAPER: &str = "subreaper";
/// Maximum size of a subreaper's report in bytes.
const LONGEST_REPORT: usize = 64 * 1024;
/// Maximum number of chunks read after the end. A pipe holds no more, but another command may keep
/// writing to it.
const LAST_CHUNKS: usize = 64;

/// A command that was started.
#[derive(Debug)]
pub(super) struct Running {
    subreaper: Pid,
    pub(super) limits: CommandLimits,
    /// Closed once the subreaper has exited.
    pub(super) report: UnixStream,
    request: Handover,
    reported: Vec<u8>,
    pub(super) stdout: Option<PipeReader>,
    pub(super) stderr: Option<PipeReader>,
    stdin: Option<PipeWriter>,
    waiting: VecDeque<u8>,
    has_end_of_input: bool,
}

impl Running {
    /// Starts a subreaper with `program`, which is this one, and hands it `request`.
    #[expect(
        clippy::disallowed_methods,
        reason = "it runs in a container, to start the programs that the sandbox asks for"
    )]
    pub(super) fn start(program: &OsStr, request: &Request) -> io::Result<Self> {
        let (report, theirs) = UnixStream::pair()?;
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        let input = request.has_input().then(io::pipe).transpose()?;
        let child = Command::new(program)
            .args(["supervise", SUBREAPER])
            .stdin(OwnedFd::from(theirs))
            .stdout(their_stdout)
            .stderr(their_stderr)
            .spawn()?;
        let subreaper = Pid::from_child(&child);
        let (their_stdin, stdin) = input.unzip();
        let mut running = Self {
            subreaper,
            limits: request.limits(),
            report,
            request: Handover::default(),
            reported: Vec::new(),
            stdout: Some(stdout),
            stderr: Some(stderr),
            stdin,
            waiting: VecDeque::new(),
            has_end_of_input: false,
        };
        running
            .prepare(request, their_stdin.map(OwnedFd::from).as_ref())
            .inspect_err(|_| running.kill_subreaper())?;
        Ok(running)
    }

    fn prepare(&mut self, request: &Request, input: Option<&OwnedFd>) -> io::Result<()> {
        self.set_nonblocking()?;
        match handover::give(&mut self.report, request, input) {
            Ok(rest) => self.request = rest,
            // If the subreaper has already exited, its socket is closed.
            Err(error) if has_gone(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        for reader in [&self.stdout, &self.stderr].into_iter().flatten() {
            rustix::io::ioctl_fionbio(reader, true)?;
        }
        if let Some(stdin) = &self.stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        self.report.set_nonblocking(true)
    }

    pub(super) fn subreaper(&self) -> i32 {
        self.subreaper.as_raw_pid()
    }

    /// Kills the subreaper: its descendants are reparented to PID 1.
    pub(super) fn kill_subreaper(&self) {
        // It may have ended already.
        let _ = kill_process(self.subreaper, Signal::KILL);
        while let Err(rustix::io::Errno::INTR) = waitpid(Some(self.subreaper), WaitOptions::empty()) {}
    }

    /// Whether part of the request was not sent to the subreaper yet.
    pub(super) fn is_handing_over(&self) -> bool {
        !self.request.is_done()
    }

    /// Sends the subreaper more of its request.
    pub(super) fn hand_over(&mut self) {
        if self.request.resume(&mut self.report).is_err() {
            // The subreaper has exited, as its closed socket shows.
            self.request = Handover::default();
        }
    }

    /// Reads the subreaper's report. `true` once it has exited.
    pub(super) fn read_report(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.report.read(&mut bytes) {
            Ok(0) => true,
            Ok(read) => {
                let room = LONGEST_REPORT.saturating_sub(self.reported.len());
                self.reported.extend_from_slice(bytes.get(..read.min(room)).unwrap_or_default());
                false
            }
            Err(error) => !is_transient(&error),
        }
    }

    /// Reads the rest of the report of a subreaper that has exited.
    pub(super) fn read_rest_of_report(&mut self) {
        for _ in 0..LONGEST_REPORT / 4096 {
            if self.read_report() {
                return;
            }
        }
    }

    /// The end of the command, as reported by its subreaper. A killed subreaper reports nothing.
    pub(super) fn result(&self) -> End {
        serde_json::from_slice(&self.reported).unwrap_or_else(|_| End::killed())
    }

    /// Queues input of the command.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> usize {
        if self.stdin.is_none() {
            return bytes.len();
        }
        self.waiting.extend(bytes);
        0
    }

    /// Ends the input.
    pub(super) fn end_input(&mut self) {
        self.has_end_of_input = true;
        self.close_when_done();
    }

    /// The input pipe, if data is pending.
    pub(super) fn pending_input(&self) -> Option<&PipeWriter> {
        self.stdin.as_ref().filter(|_| !self.waiting.is_empty())
    }

    /// Writes as much as the pipe accepts now. Returns the number of processed bytes: all if the
    /// command closed its stdin.
    pub(super) fn write(&mut self) -> usize {
        let (Some(stdin), (bytes, _)) = (&mut self.stdin, self.waiting.as_slices()) else {
            return 0;
        };
        match stdin.write(bytes) {
            Ok(written) => {
                self.waiting.drain(..written);
                self.close_when_done();
                written
            }
            Err(error) if is_transient(&error) => 0,
            Err(_) => {
                self.stdin = None;
                std::mem::take(&mut self.waiting).len()
            }
        }
    }

    fn close_when_done(&mut self) {
        if self.has_end_of_input && self.waiting.is_empty() {
            self.stdin = None;
        }
    }

    /// The rest of a pipe after all its writers have ended.
    pub(super) fn rest(pipe: &mut Option<PipeReader>) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        while chunks.len() < LAST_CHUNKS
            && let Some(chunk) = chunk(pipe)
        {
            chunks.push(chunk);
        }
        chunks
    }
}

/// The data currently in a pipe. A closed pipe is dropped.
pub(super) fn chunk(pipe: &mut Option<PipeReader>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; LARGEST_CHUNK];
    match pipe.as_mut()?.read(&mut bytes) {
        Ok(read) if read > 0 => {
            bytes.truncate(read);
            Some(bytes)
        }
        Err(error) if is_transient(&error) => None,
        Ok(_) | Err(_) => {
            *pipe = None;
            None
        }
    }
}

/// Whether the other end is closed.
fn has_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use sandbox_inside::CommandLine;

    use super::*;

    #[test]
    fn subreaper_that_does_not_read_blocks_nobody() {
        // More than its socket accepts, for a program that writes and never reads.
        let request = Request::Run {
            command: CommandLine::Shell("x".repeat(1 << 20)),
            env: std::collections::BTreeMap::new(),
            working_dir: None,
            input: false,
            limits: CommandLimits::default(),
        };
        let (sender, started) = mpsc::channel();
        thread::spawn(move || sender.send(Running::start(OsStr::new("yes"), &request)).is_ok());
        let running = started.recv_timeout(Duration::from_mins(1));
        let mut running = running.expect("it does not wait").unwrap();
        assert!(running.is_handing_over() && !running.read_report());
        running.kill_subreaper();
        running.hand_over();
        assert!(!running.is_handing_over(), "there is no peer to hand more to");
    }
}
