//! Any command in a container.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use sandbox_agents::Ended;
use tokio::io::AsyncRead;

use crate::container::Chunk;
use crate::context::Shared;
use crate::error::SandboxError;
use crate::spec::CommandSpec;
use sandbox_workspace::Findings;

use super::capture::Capture;
use super::controls::controls;
use super::drive::Sink;
use super::execution::{Events, Execution, Owner};
use super::launch::Program;
use super::result::CommandResult;
use super::runner::{Finished, Runner};
use super::teardown;

/// The stdin of a command.
#[derive(Default)]
pub enum Input {
    /// Nothing: stdin is at its end from the start.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// The bytes of a reader, until it ends.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
}

impl Input {
    /// How many chunks of output may wait for a reader.
    pub(super) const CHUNKS: usize = 8;

    pub(crate) fn into_reader(self) -> Box<dyn AsyncRead + Send + Unpin> {
        match self {
            Self::Empty => Box::new(tokio::io::empty()),
            Self::Bytes(bytes) => Box::new(std::io::Cursor::new(bytes)),
            Self::Reader(reader) => reader,
        }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Bytes(_) => "Bytes(..)",
            Self::Reader(_) => "Reader(..)",
        })
    }
}

/// Any command in a container of its own. Created by
/// [`Sandbox::create_command`](crate::Sandbox::create_command).
#[derive(Debug, Clone)]
pub struct Command(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    spec: CommandSpec,
    runner: Runner,
}

impl Command {
    pub(crate) fn new(shared: Arc<Shared>, mut spec: CommandSpec) -> Result<Self, SandboxError> {
        spec.validate()?;
        let runner = Runner::new(shared, &mut spec.launch)?;
        Ok(Self(Arc::new(Inner { spec, runner })))
    }

    /// Runs the command in the background. Read the [`Execution`] for its output as it comes, await
    /// it for its result.
    ///
    /// When the result is available, the process is dead, and tampered files in protected mounts
    /// have been moved away. Without such mounts and without a copy of a work tree, the container,
    /// proxy and network are removed in the background;
    /// [`Sandbox::shutdown`](crate::Sandbox::shutdown) waits for that.
    ///
    /// The result is an error only when the infrastructure fails, when the program is not in the
    /// image, or when this command is already running. A command that fails or is stopped is a
    /// result.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn execute(&self, input: Input) -> Execution<Chunk, CommandResult> {
        let inner = Arc::clone(&self.0);
        Execution::spawn(
            &self.0.runner.switch,
            Input::CHUNKS,
            |result| teardown::log(&result.tampered, &result.git),
            |owner| async move { inner.execute(input, owner).await },
        )
    }
}

controls!(Command);

impl Inner {
    #[tracing::instrument(name = "execution", skip_all, fields(context = self.spec.launch.context))]
    async fn execute(&self, input: Input, owner: Owner<Chunk>) -> Result<CommandResult, SandboxError> {
        let program = Program {
            command: self.spec.command.clone(),
            terminal: self.spec.terminal,
            ..Program::default()
        };
        let (events, gone) = owner.split();
        let mut output = Kept::new(events);
        let finished =
            self.runner.run(&self.spec.launch, program, input.into_reader(), &mut output, gone).await?;
        output.result(finished)
    }
}

/// Output that is kept, and passed on to the caller.
pub(super) struct Kept {
    events: Events<Chunk>,
    stdout: Capture,
    stderr: Capture,
}

impl Kept {
    pub(super) fn new(events: Events<Chunk>) -> Self {
        let capture = || Capture::new(Capture::DEFAULT_LIMIT);
        Self { events, stdout: capture(), stderr: capture() }
    }

    /// The result of the execution with this output.
    pub(super) fn result(self, finished: Finished) -> Result<CommandResult, SandboxError> {
        let Finished { end, timings, findings, traffic } = finished;
        let end = teardown::logged_on_error(end, &findings)?;
        let Findings { tampered, git, .. } = findings;
        Ok(CommandResult {
            exit_code: end.exit.code,
            cut: self.stdout.cut().saturating_add(self.stderr.cut()),
            stdout: self.stdout.into_bytes(),
            stderr: self.stderr.into_bytes(),
            duration: Duration::from_millis(timings.exited_ms.saturating_sub(timings.started_ms)),
            timed_out: end.ended == Ended::Timeout,
            stopped: end.ended == Ended::Stopped,
            oom_killed: end.exit.oom_killed,
            tampered,
            git,
            traffic,
            timings,
        })
    }
}

impl Sink for Kept {
    async fn take(&mut self, chunk: Chunk) -> ControlFlow<Ended> {
        match &chunk {
            Chunk::Stdout(bytes) => self.stdout.push(bytes),
            Chunk::Stderr(bytes) => self.stderr.push(bytes),
        }
        self.events.send(vec![chunk]).await;
        ControlFlow::Continue(())
    }

    fn at_end(&self) -> impl FnOnce() + Send + use<> {
        self.events.at_end()
    }
}
