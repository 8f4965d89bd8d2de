//! A container whose first process is the supervisor.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandbox_inside::{Frame, Request};
use tokio::io::{AsyncRead, AsyncWriteExt as _};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::container::{LaunchedProgram, ProgramControl, Stdin};
use crate::error::{ExecutorError, SandboxError};
use crate::program::SUPERVISE;
use crate::spec::{Launch, Mount};
use crate::task::{ProcessInput, Program, Started, start};

use super::feed::feed;
use super::router::{CommandSlot, CommandState, OutputRouter};
use super::teardown::{ActiveContainer, Teardown};

/// How long the supervisor may take to become ready.
const READY: Duration = Duration::from_secs(30);
/// How long it may take to end a command. After that the container is ended.
const GRACE: Duration = Duration::from_secs(5);

/// A container whose first process is the supervisor.
#[derive(Debug)]
pub(super) struct Session {
    teardown: Arc<Teardown>,
    /// The container to remove; `None` once that has begun. Locked for single operations only.
    active: Mutex<Option<ActiveContainer>>,
    handle: Arc<dyn ProgramControl>,
    router: Arc<OutputRouter>,
    frames: UnboundedSender<Frame>,
    next: AtomicU32,
}

/// The end of a command.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) state: CommandState,
    pub(super) timed_out: bool,
    pub(super) stdout: (Vec<u8>, u64),
    pub(super) stderr: (Vec<u8>, u64),
    pub(super) duration: Duration,
}

/// A command to run on a session.
pub(super) struct Work {
    pub(super) request: Request,
    pub(super) input: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub(super) timeout: Option<Duration>,
    pub(super) output_limit: usize,
}

impl Session {
    /// Creates the container and waits until its supervisor serves.
    pub(super) async fn open(
        teardown: &Arc<Teardown>,
        launch: &Launch,
        supervisor: Option<&Mount>,
    ) -> Result<Self, SandboxError> {
        let program = Program {
            entrypoint: Some(SUPERVISE.map(str::to_owned).to_vec()),
            mounts: supervisor.cloned().into_iter().collect(),
            ..Program::default()
        };
        let Started { program, proxy, hold, agent, .. } =
            Box::pin(start(&teardown.shared, launch, program, ProcessInput::Written)).await?;
        let LaunchedProgram { stdin, output, control: handle } = program;
        let (frames, receiver) = mpsc::unbounded_channel();
        let session = Self {
            teardown: Arc::clone(teardown),
            active: Mutex::new(Some(ActiveContainer { handle: Arc::clone(&handle), proxy, hold, agent })),
            handle,
            router: Arc::new(OutputRouter::new()),
            frames,
            next: AtomicU32::new(1),
        };
        tokio::spawn(write(receiver, stdin));
        let router = Arc::clone(&session.router);
        tokio::spawn(async move { router.route(output).await });
        match tokio::time::timeout(READY, session.router.ready()).await {
            Ok(true) => Ok(session),
            Ok(false) => Err(session.lost().into()),
            Err(_) => {
                Err(ExecutorError::ContainerEnded { stderr: format!("not ready within {READY:?}") }.into())
            }
        }
    }

    /// Whether it can run commands.
    pub(super) fn is_alive(&self) -> bool {
        self.router.is_alive()
    }

    /// Why a command was lost.
    pub(super) fn lost(&self) -> ExecutorError {
        ExecutorError::ContainerEnded { stderr: self.router.stderr() }
    }

    /// Runs a command to its end. When this future is dropped, the command is ended.
    pub(super) async fn run(&self, work: Work) -> Result<Ran, SandboxError> {
        let begun = Instant::now();
        let command = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = self.router.open(command, work.output_limit).ok_or_else(|| self.lost())?;
        let claim = Claim { session: self, command };
        self.send(Frame::Start { command, request: work.request });
        let feeding = async {
            if let Some(input) = work.input {
                feed(input, command, &slot, &self.frames).await;
            }
            std::future::pending::<()>().await;
        };
        let timed_out = tokio::select! {
            biased;
            _ = slot.end() => false,
            () = deadline(work.timeout) => true,
            () = feeding => false,
        };
        let state = if timed_out { self.end(command, &slot).await? } else { slot.end().await };
        drop(claim);
        let [stdout, stderr] = slot.take_output();
        Ok(Ran { state, timed_out, stdout, stderr, duration: begun.elapsed() })
    }

    /// Ends a command, or the container if that fails.
    async fn end(&self, command: u32, slot: &CommandSlot) -> Result<CommandState, SandboxError> {
        self.send(Frame::Kill { command });
        if let Ok(state) = tokio::time::timeout(GRACE, slot.end()).await {
            return Ok(state);
        }
        tracing::warn!("failed to end a command alone; its container is ended with it");
        self.handle.kill().await?;
        Ok(tokio::time::timeout(GRACE, slot.end()).await.unwrap_or(CommandState::Lost))
    }

    /// A supervisor that does not accept input is about to end.
    fn send(&self, frame: Frame) {
        if self.frames.send(frame).is_err() {
            self.router.end();
        }
    }

    /// Ends the container with everything that runs in it, removes it, and searches for tampered
    /// paths. That continues when this future is dropped.
    pub(super) async fn close(&self) -> Result<(), SandboxError> {
        let Some(active) = self.active() else {
            return Ok(());
        };
        self.teardown.begin(active).await.unwrap_or(Err(SandboxError::TeardownFailed))
    }

    fn active(&self) -> Option<ActiveContainer> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Session {
    /// Closing its stdin ends the container. Within a runtime it is removed in the background as
    /// well; otherwise it is removed by label.
    fn drop(&mut self) {
        if let Some(active) = self.active() {
            drop(self.teardown.begin(active));
        }
    }
}

/// A command whose result is awaited.
struct Claim<'a> {
    session: &'a Session,
    command: u32,
}

impl Drop for Claim<'_> {
    /// Killing a command that has ended has no effect.
    fn drop(&mut self) {
        self.session.send(Frame::Kill { command: self.command });
        self.session.router.close(self.command);
    }
}

async fn write(mut frames: UnboundedReceiver<Frame>, mut stdin: Stdin) {
    while let Some(frame) = frames.recv().await {
        if let Err(error) = stdin.write_all(&frame.encode()).await {
            tracing::debug!(%error, "the supervisor does not read any more");
            return;
        }
    }
    let _ = stdin.shutdown().await;
}

async fn deadline(timeout: Option<Duration>) {
    match timeout {
        // tidy: sleep: a deadline, not a poll
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}
