//! The scripted engine: what it was asked for, and what runs.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, watch};

use super::script::{Lost, Script, Signal};
use super::supervisor::supervise;
use crate::container::{
    Answer, Chunk, ContainerError, Exit, LaunchPlan, LaunchedProgram, Launcher, ProgramControl, ProgramLog,
};
use crate::program::SUPERVISE;
use crate::spec::ContainerEnv;
use sandbox_podman::{EngineError, Output, Stdin};

/// What a pipe holds.
const PIPE: usize = 64 << 10;

/// An engine that launches nothing: each program does what the next [`Script`] says, in the order in which they are launched. It has every
/// image. A clone is the same engine, to be scripted and looked at while the sandbox has it.
///
/// A program is what was asked for: Claude Code, a command, a run, or a command or file of an executor. A container of an executor is none.
#[derive(Debug, Clone, Default)]
pub struct ScriptedEngine(
    /// Locked for single operations only.
    Arc<Mutex<State>>,
);

#[derive(Debug, Default)]
struct State {
    scripts: VecDeque<Script>,
    absent: BTreeSet<String>,
    programs: Vec<ScriptedProgram>,
}

/// A program that was launched.
#[derive(Debug)]
struct Playing {
    name: String,
    signal: watch::Sender<Signal>,
    ended: watch::Receiver<Option<Result<Exit, Lost>>>,
    /// What it has written. Locked for single operations only.
    written: Written,
}

type Written = Arc<Mutex<Vec<Chunk>>>;

/// A program that a [`ScriptedEngine`] was asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScriptedProgram {
    /// What was launched for it; for a program of an executor, its container.
    pub plan: LaunchPlan,
    /// The program and its arguments. A line for a shell is `sh`, `-c` and the line; of an executor's files, `write` or `read` and the path.
    pub command: Vec<String>,
    /// The variables that are set over the image's.
    pub env: ContainerEnv,
    /// `None`: the image's.
    pub working_dir: Option<String>,
    /// What it has read so far.
    pub input: Vec<u8>,
}

impl ScriptedEngine {
    /// An engine without scripts: whatever is launched is an error.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what the next program does for which there is no script yet.
    #[expect(clippy::must_use_candidate, reason = "what it returns is for the next call of it")]
    pub fn then(&self, script: Script) -> &Self {
        self.state().scripts.push_back(script);
        self
    }

    /// Takes the image `name` away.
    pub fn without_image(&self, name: impl Into<String>) -> &Self {
        self.state().absent.insert(name.into());
        self
    }

    /// What was launched so far, first things first, with what could not be.
    #[must_use]
    pub fn programs(&self) -> Vec<ScriptedProgram> {
        self.state().programs.clone()
    }

    /// How many scripts are left. A test that ends with more than 0 has not launched what it thinks.
    #[must_use]
    pub fn scripts_left(&self) -> usize {
        self.state().scripts.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Begins the script of `program`, and gives its number.
    pub(super) fn begin(&self, program: ScriptedProgram) -> Result<(usize, Script), ContainerError> {
        let (plan, command) = (program.plan.clone(), program.command.join(" "));
        let mut state = self.state();
        let number = state.programs.len();
        state.programs.push(program);
        let script = state.scripts.pop_front();
        drop(state);
        let unforeseen = || {
            let number = number + 1;
            let problem = format!(
                "nothing is scripted for program {number}, `{}`; say what it does with `ScriptedEngine::then`",
                command.escape_debug()
            );
            EngineError::refused("launch", &plan.name, problem)
        };
        Ok((number, script.ok_or_else(unforeseen)?.begin(&plan)?))
    }

    /// Remembers what a program has read.
    pub(super) fn keep_input(&self, number: usize, bytes: &[u8]) {
        if let Some(program) = self.state().programs.get_mut(number) {
            program.input.extend_from_slice(bytes);
        }
    }

    async fn read(&self, number: usize, mut stdin: impl AsyncRead + Unpin) {
        let mut buffer = Vec::with_capacity(PIPE);
        while let Ok(1..) = stdin.read_buf(&mut buffer).await {
            self.keep_input(number, &buffer);
            buffer.clear();
        }
    }

    fn start(&self, plan: &LaunchPlan) -> Result<LaunchedProgram, ContainerError> {
        let (stdin, reader) = tokio::io::duplex(PIPE);
        let (output, chunks) = mpsc::unbounded_channel();
        let (signal, signalled) = watch::channel(Signal::None);
        let (end, ended) = watch::channel(None);
        let written = Written::default();
        let engine = self.clone();
        if plan.entrypoint.iter().flatten().eq(SUPERVISE.iter()) {
            let plan = plan.clone();
            tokio::spawn(async move {
                end.send_replace(Some(supervise(&engine, &plan, reader, signalled, output).await));
            });
        } else {
            let (number, script) = self.begin(ScriptedProgram::of(plan))?;
            let written = Arc::clone(&written);
            tokio::spawn(async move {
                let input = engine.read(number, reader);
                let write = move |chunk: Chunk| {
                    lock(&written).push(chunk.clone());
                    // Without a reader, nothing is lost.
                    let _ = output.send(chunk);
                };
                end.send_replace(Some(script.play(input, signalled, write).await));
            });
        }
        let chunks = stream::unfold(chunks, async |mut chunks| Some((Ok(chunks.recv().await?), chunks)));
        Ok(LaunchedProgram {
            stdin: Stdin::new(stdin),
            output: Output::new(chunks),
            control: Arc::new(Playing { name: plan.name.clone(), signal, ended, written }),
        })
    }
}

impl Playing {
    async fn end(&self) -> Result<Exit, EngineError> {
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await.map(|ended| *ended);
        match ended {
            Ok(Some(Ok(exit))) => Ok(exit),
            // Also of a script that panics.
            _ => Err(EngineError::unreachable("wait for", &self.name)),
        }
    }

    fn send(&self, signal: Signal) {
        self.signal.send_replace(signal);
    }
}

impl ScriptedProgram {
    fn of(plan: &LaunchPlan) -> Self {
        Self {
            plan: plan.clone(),
            command: plan.command.clone(),
            env: plan.env.clone(),
            working_dir: plan.working_dir.clone(),
            input: Vec::new(),
        }
    }

    /// Of an executor whose container is `plan`.
    pub(super) fn executed(plan: &LaunchPlan, command: Vec<String>) -> Self {
        Self { command, ..Self::of(plan) }
    }
}

impl Launcher for ScriptedEngine {
    fn has_image<'a>(&'a self, image: &'a str) -> Answer<'a, bool> {
        Box::pin(async move { Ok(!self.state().absent.contains(image)) })
    }

    fn launch<'a>(&'a self, plan: &'a LaunchPlan) -> Answer<'a, LaunchedProgram, ContainerError> {
        Box::pin(async move { self.start(plan) })
    }
}

impl ProgramControl for Playing {
    fn wait(&self) -> Answer<'_, Exit> {
        Box::pin(self.end())
    }

    fn stop(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.send(Signal::Stop);
            self.end().await.map(drop)
        })
    }

    fn kill(&self) -> Answer<'_, ()> {
        self.send(Signal::Kill);
        Box::pin(std::future::ready(Ok(())))
    }

    fn log(&self) -> Answer<'_, ProgramLog> {
        let ended = self.ended.borrow().is_some();
        let written = lock(&self.written).clone();
        let output = Output::new(stream::iter(written.into_iter().map(Ok)));
        Box::pin(std::future::ready(Ok(ProgramLog { ended, output })))
    }

    fn remove(&self) -> Answer<'_, ()> {
        self.kill()
    }
}

/// No code that holds one of these locks can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
