//! Any command in a container.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use allowlist::Allowlist;
use bytes::Bytes;
use tokio::io::AsyncRead;

use crate::container::{Chunk, Running};
use crate::context::Shared;
use crate::egress::RunningProxy;
use crate::error::SandboxError;
use crate::network_log::NetworkLog;
use crate::spec::CommandSpec;

use super::aftermath;
use super::capture::Capture;
use super::drive;
use super::launch::{self, Program, Started};
use super::live::LiveProxy;
use super::mounts;
use super::outcome::Ended;
use super::result::CommandResult;
use crate::stop_switch::StopSwitch;

/// What a command reads on its stdin.
#[derive(Default)]
pub enum Input {
    /// Nothing: stdin is at its end from the start.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Whatever the reader gives, until it ends.
    Reader(Box<dyn AsyncRead + Send + Unpin>),
}

impl Input {
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

/// A piece of output, as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputChunk {
    /// From stdout.
    Stdout(Bytes),
    /// From stderr.
    Stderr(Bytes),
}

/// Any command in a container of its own. [`Sandbox::create_command`](crate::Sandbox::create_command) makes one.
#[derive(Debug)]
pub struct Command {
    shared: Arc<Shared>,
    spec: CommandSpec,
    switch: Arc<StopSwitch>,
    live: LiveProxy,
}

impl Command {
    pub(crate) fn new(shared: Arc<Shared>, mut spec: CommandSpec) -> Result<Self, SandboxError> {
        spec.validate()?;
        spec.launch
            .resolve_mounts(&mounts::resolver(shared.state_dir(), &spec.launch.mounts)?)?;
        let switch = shared.new_switch();
        Ok(Self {
            shared,
            spec,
            switch,
            live: LiveProxy::default(),
        })
    }

    /// The log of the command's network activity; `None` without a folder for it.
    #[must_use]
    pub fn network_log(&self) -> Option<NetworkLog> {
        self.spec.launch.network_log_dir.as_deref().map(NetworkLog::new)
    }

    /// Runs the command and waits for its end. `on_output` gets each chunk as it arrives; while it is busy, the command waits.
    ///
    /// # Errors
    ///
    /// Only when the infrastructure fails, when the program is not in the image, or when this command is already running.
    /// A command that fails or is stopped is a result.
    #[tracing::instrument(name = "execution", skip_all, fields(context = self.spec.launch.context))]
    pub async fn execute(
        &self,
        input: Input,
        mut on_output: impl AsyncFnMut(OutputChunk),
    ) -> Result<CommandResult, SandboxError> {
        let _running = self.switch.begin()?;
        let program = Program {
            entrypoint: None,
            command: self.spec.command.clone(),
            ..Program::default()
        };
        let started = Box::pin(launch::start(&self.shared, &self.spec.launch, program)).await?;
        let Started {
            running:
                Running {
                    stdin,
                    output,
                    handle,
                },
            proxy,
            mut timings,
            since,
            hold,
        } = started;
        self.live.replace(proxy.as_ref().map(RunningProxy::control));
        let feeding = tokio::spawn(drive::feed(input.into_reader(), stdin));
        let mut stdout = Capture::new(Capture::DEFAULT_LIMIT);
        let mut stderr = Capture::new(Capture::DEFAULT_LIMIT);
        let end = drive::drive(
            output,
            &handle,
            self.spec.launch.limits.timeout,
            &self.switch,
            async |chunk| {
                match chunk {
                    Chunk::Stdout(bytes) => {
                        stdout.push(&bytes);
                        on_output(OutputChunk::Stdout(bytes)).await;
                    }
                    Chunk::Stderr(bytes) => {
                        stderr.push(&bytes);
                        on_output(OutputChunk::Stderr(bytes)).await;
                    }
                }
                true
            },
        )
        .await;
        timings.exited_ms = launch::elapsed_ms(since);
        tracing::info!(ms = timings.exited_ms, "ended");
        self.live.replace(None);
        feeding.abort();
        let planted = aftermath::of(&self.shared, handle, proxy, hold).await;
        let end = aftermath::or_told(end, &planted)?;
        Ok(CommandResult {
            exit_code: end.exit.code,
            stdout: stdout.into_bytes(),
            stderr: stderr.into_bytes(),
            duration: Duration::from_millis(timings.exited_ms.saturating_sub(timings.started_ms)),
            timed_out: end.ended == Ended::Timeout,
            stopped: end.ended == Ended::Stopped,
            oom_killed: end.exit.oom_killed,
            planted,
            timings,
        })
    }

    /// Puts `policy` in force for the running execution, from its next request on.
    ///
    /// # Errors
    ///
    /// When nothing with a network sandbox is running.
    pub async fn set_policy(&self, policy: Allowlist) -> Result<(), SandboxError> {
        self.live.set_policy(policy).await
    }

    /// Cuts the running execution off: its connections are closed, and every further request is refused.
    ///
    /// # Errors
    ///
    /// When nothing with a network sandbox is running.
    pub async fn quarantine(&self) -> Result<(), SandboxError> {
        self.live.quarantine().await
    }

    /// Stops a running execution: SIGTERM, and SIGKILL after 5 s. Tells whether there was one; returns when it has ended.
    pub async fn stop(&self) -> bool {
        self.switch.stop().await
    }
}
