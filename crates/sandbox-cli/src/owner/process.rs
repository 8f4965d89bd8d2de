//! The start of an owner process, and its streams.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use super::frame::Frame;
use super::screen::Screen;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::printer::Printer;

/// The flag that starts a process as the owner of a run.
const FLAG: &str = "--owner";
/// The maximum time for attached clients to read the rest, and for our own streams to be read.
const REST: Duration = Duration::from_secs(10);

/// This process as an owner. Static, because it replaces the streams of the process.
static OWNER: OnceLock<Owner> = OnceLock::new();

/// The streams of this process.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) screen: Arc<Screen>,
    /// The pipe on which the process that started us waits for the id of the run; and the stream
    /// that then becomes stderr.
    starting: Mutex<Option<(File, OwnedFd)>>,
    /// Whether stderr already goes to attached clients.
    takes_output: watch::Sender<bool>,
    /// The end from which the program reads what attached clients type.
    input: Mutex<Option<OwnedFd>>,
    /// Each thread that reads one of our streams sends a message at its end.
    readers: Mutex<mpsc::Receiver<()>>,
}

impl Owner {
    /// Makes this process an owner, with its own session; its stdout goes to attached clients.
    pub(crate) fn begin() -> io::Result<()> {
        setsid()?;
        // Child processes do not inherit it, so it closes when this process ends.
        let ready = File::from(fcntl_dupfd_cloexec(io::stdout(), 3)?);
        let screen = Arc::new(Screen::default());
        let (ended, readers) = mpsc::channel();
        let reader = |frame: fn(Vec<u8>) -> Frame| {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            let (screen, ended) = (Arc::clone(&screen), ended.clone());
            thread::spawn(move || {
                screen.add_all(File::from(read), frame);
                let _ = ended.send(());
            });
            io::Result::Ok(write)
        };
        dup2_stdout(reader(Frame::Output)?)?;
        let stderr = reader(Frame::Message)?;
        let starting = Mutex::new(Some((ready, stderr)));
        let takes_output = watch::Sender::new(false);
        let (readers, input) = (Mutex::new(readers), Mutex::default());
        let owner = Self { screen, starting, takes_output, input, readers };
        OWNER.set(owner).map_err(|_| io::Error::other("it already owns a run"))
    }

    /// This process as an owner.
    pub(crate) fn of_this_process() -> Option<&'static Self> {
        OWNER.get()
    }

    /// From now on stdin is empty; the input of attached clients is [`input`](Self::input), if the
    /// program has a terminal. `is_watched`: the process that started us attaches.
    pub(crate) async fn take_input(&self, has_terminal: bool, is_watched: bool) -> io::Result<()> {
        dup2_stdin(File::open("/dev/null")?)?;
        if has_terminal {
            if is_watched {
                self.screen.expect_viewer();
            }
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            *self.input.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
            self.screen.take_input(pipe::Sender::from_owned_fd(write)?).await;
        }
        Ok(())
    }

    /// The input of attached clients, for each attempt to start the program.
    pub(crate) fn input(&self) -> io::Result<Option<pipe::Receiver>> {
        let input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(input) = &*input else { return Ok(None) };
        pipe::Receiver::from_owned_fd(input.try_clone()?).map(Some)
    }

    /// Reports that the program of `run` was started: the waiting process may attach, and we no
    /// longer use the terminal.
    pub(crate) fn is_ready(&self, run: &str) {
        let starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((mut ready, stderr)) = starting {
            let _ = dup2_stderr(stderr);
            // If the process is gone, its user finds the run with `ps`.
            let _ = writeln!(ready, "{run}");
        }
        self.takes_output.send_replace(true);
    }

    /// Reports that the run cannot be attached to and is stopped: its remaining output goes to the
    /// process that started us.
    pub(crate) fn is_refused(&self) {
        self.takes_output.send_replace(true);
    }

    /// Waits until it is known where output goes, and returns whether to attached clients. The
    /// program may write as soon as it is started.
    pub(crate) async fn takes_output(&self) -> bool {
        if !*self.takes_output.borrow() {
            // With a timeout: a program that failed to start is never ready.
            let _ = timeout(REST, self.takes_output.subscribe().wait_for(|takes| *takes)).await;
        }
        self.starting.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Reports the end of the run to all attached clients, and waits until they have read it.
    pub(crate) async fn end(
        &self,
        result: Result<ExitStatus, Failure>,
        printer: Printer,
    ) -> Result<ExitStatus, Failure> {
        let was_ready = self.starting.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if !was_ready {
            // The process that started us gets our stderr and our exit code.
            return result;
        }
        let status = result.unwrap_or_else(|failure| {
            printer.failure(&failure);
            failure.status()
        });
        if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
            let _ = dup2_stdout(&nowhere).and(dup2_stderr(&nowhere));
            let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
            // A host program that outlives us may still hold a stream.
            let _ = readers.recv_timeout(REST).and_then(|()| readers.recv_timeout(REST));
        }
        self.screen.end(status.code());
        let _ = timeout(REST, self.screen.left()).await;
        Ok(status)
    }
}

/// An owner process that is starting.
#[derive(Debug)]
pub(crate) struct Starting {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// Starts an owner process with the arguments of this one. It has our terminal until its program
/// runs.
#[expect(clippy::disallowed_methods, reason = "it starts this program itself")]
pub(crate) fn start() -> Result<Starting, Failure> {
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg(FLAG).args(std::env::args_os().skip(1)).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(Failure::doing("start the process that owns the run"))?;
    let stdout = child.stdout.take().ok_or_else(|| Failure::new("the owner of the run has no stdout"))?;
    Ok(Starting { child, stdout: BufReader::new(stdout) })
}

impl Starting {
    /// Passes a signal on.
    pub(crate) fn signal(pid: u32, interrupt: Interrupt) {
        let signal = match interrupt {
            Interrupt::HangUp => Signal::HUP,
            Interrupt::KeyPress => Signal::INT,
            Interrupt::Terminate => Signal::TERM,
        };
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the start of the program, and returns the id of its run; `None` if it was not
    /// started. Blocks.
    pub(crate) fn run(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        self.stdout.by_ref().take(256).read_line(&mut line)?;
        Ok(line.strip_suffix('\n').map(str::to_owned))
    }

    /// Waits for the end of the process, and returns its exit code. Blocks.
    pub(crate) fn end(mut self) -> ExitStatus {
        let code = self.child.wait().ok().and_then(|status| status.code());
        code.map_or(ExitStatus::Infrastructure, |code| ExitStatus::of_command(code.into()))
    }
}
