//! The behaviour of a scripted program.

use std::fmt;

use bytes::Bytes;
use tokio::sync::watch;

use crate::container::{Chunk, ContainerError, Exit, LaunchPlan};

/// The longest chunk that an engine sends.
const LONGEST: usize = 8 << 10;

/// The exit code of a program that SIGTERM or SIGKILL ended.
const STOPPED: i64 = 143;
const KILLED: i64 = 137;

/// The behaviour of one program: by default it reads its input to the end, writes its output, and
/// exits with 0. See [`ScriptedEngine`](super::ScriptedEngine).
#[derive(Default)]
#[must_use = "give it to `ScriptedEngine::then`"]
pub struct Script {
    failure: Option<ContainerError>,
    at_start: Option<Act>,
    ignores_input: bool,
    output: Vec<Chunk>,
    ending: Ending,
}

type Act = Box<dyn FnOnce(&LaunchPlan) + Send>;

#[derive(Debug, Default)]
enum Ending {
    /// By itself, with 0.
    #[default]
    Success,
    /// By itself.
    Exit(Exit),
    /// When it is stopped or killed.
    Never,
    /// Unknown: the engine is gone.
    Lost,
}

/// A request that ends a program that does not end by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Signal {
    #[default]
    None,
    Stop,
    Kill,
}

/// The end of a program is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

impl Script {
    /// A program that reads its input, and exits with 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fails to launch, with `error`.
    pub fn fails(error: impl Into<ContainerError>) -> Self {
        Self { failure: Some(error.into()), ..Self::default() }
    }

    /// Calls `act` when the program starts, to change the host, for example its mounts.
    pub fn at_start(mut self, act: impl FnOnce(&LaunchPlan) + Send + 'static) -> Self {
        self.at_start = Some(Box::new(act));
        self
    }

    /// Writes and ends without reading its input.
    pub fn ignores_input(mut self) -> Self {
        self.ignores_input = true;
        self
    }

    /// Writes these bytes to its stdout next, without adding a line end.
    pub fn stdout(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.write(&bytes.into(), Chunk::Stdout)
    }

    /// Writes these bytes to its stderr next.
    pub fn stderr(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.write(&bytes.into(), Chunk::Stderr)
    }

    fn write(mut self, bytes: &[u8], chunk: fn(Bytes) -> Chunk) -> Self {
        self.output.extend(bytes.chunks(LONGEST).map(|piece| chunk(Bytes::copy_from_slice(piece))));
        self
    }

    /// Exits with `code`.
    pub fn exit(mut self, code: i64) -> Self {
        self.ending = Ending::Exit(Exit::new(code));
        self
    }

    /// Is killed for lack of memory after its output.
    pub fn runs_out_of_memory(mut self) -> Self {
        self.ending = Ending::Exit(Exit { oom_killed: true, ..Exit::new(KILLED) });
        self
    }

    /// Runs until it is stopped or killed, for example on a timeout. A stop ends it.
    pub fn runs_on(mut self) -> Self {
        self.ending = Ending::Never;
        self
    }

    /// Loses the engine after its output: its end is unknown.
    pub fn loses_the_engine(mut self) -> Self {
        self.ending = Ending::Lost;
        self
    }

    /// Begins the script; `Err` when it fails to launch.
    pub(super) fn begin(mut self, plan: &LaunchPlan) -> Result<Self, ContainerError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if let Some(act) = self.at_start.take() {
            act(plan);
        }
        Ok(self)
    }

    /// Plays the script to its end. It is killed when the sender of `signal` is dropped.
    pub(super) async fn play(
        self,
        input: impl Future<Output = ()>,
        mut signal: watch::Receiver<Signal>,
        write: impl Fn(Chunk),
    ) -> Result<Exit, Lost> {
        let by_itself = async {
            if !self.ignores_input {
                input.await;
            }
            self.output.into_iter().for_each(write);
            match self.ending {
                Ending::Success => Ok(Exit::new(0)),
                Ending::Exit(exit) => Ok(exit),
                Ending::Never => std::future::pending().await,
                Ending::Lost => Err(Lost),
            }
        };
        tokio::select! {
            biased;
            exit = ended_by(&mut signal) => Ok(exit),
            ended = by_itself => ended,
        }
    }
}

/// Waits for a signal, and returns the exit that it causes.
pub(super) async fn ended_by(signal: &mut watch::Receiver<Signal>) -> Exit {
    match signal.wait_for(|signal| *signal != Signal::None).await.map(|signal| *signal) {
        Ok(Signal::Stop) => Exit::new(STOPPED),
        _ => Exit::new(KILLED),
    }
}

/// Without the output, which may be long.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("failure", &self.failure)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}
