//! What may stand in the place of the engine: whatever launches programs and looks after them.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::spec::{ContainerEnv, ImageTag, Isolation, Launch, Mount, Network, ResourceLimits};
use sandbox_podman::{EngineError, Output, Stdin, TerminalSize};

use super::error::ContainerError;
use super::plan::ContainerPlan;

/// What a [`Launcher`] answers.
pub type Answer<'a, T, E = EngineError> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// Launches programs in the place of the engine.
/// [`Sandbox::with_launcher`](crate::Sandbox::with_launcher) is given one.
pub trait Launcher: fmt::Debug + Send + Sync {
    /// Whether there is an image of this name.
    fn has_image<'a>(&'a self, image: &'a str) -> Answer<'a, bool>;

    /// Starts the program of `plan`. Nothing is left of one that could not be started, or whose
    /// future was dropped.
    fn launch<'a>(&'a self, plan: &'a LaunchPlan) -> Answer<'a, LaunchedProgram, ContainerError>;
}

/// A program that was started: waits for it, ends it and removes it. Any number of callers may do
/// so at the same time.
pub trait ProgramControl: fmt::Debug + Send + Sync {
    /// Waits for its end. It is an error when it is not known how it ended: it may still run then.
    fn wait(&self) -> Answer<'_, Exit>;

    /// Asks it to end, and kills it when its time is over, as the isolation of its plan says.
    /// Returns when it is dead.
    fn stop(&self) -> Answer<'_, ()>;

    /// Kills it, and does not wait. For one that has ended, there is nothing to be done.
    fn kill(&self) -> Answer<'_, ()>;

    /// Gives its terminal another size. An error where it has none that can be resized, which is
    /// the default.
    fn resize(&self, _size: TerminalSize) -> Answer<'_, ()> {
        let refused =
            EngineError::refused("resize the terminal of", "program", "it has none that can be resized");
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Starts a further program beside it, confined in the same way. It ends when this one does. An
    /// error where that cannot be done, which is the default.
    fn exec<'a>(&'a self, _spec: &'a ExecSpec) -> Answer<'a, LaunchedProgram, ContainerError> {
        let refused = EngineError::refused("start a command beside", "program", "its launcher starts none");
        Box::pin(std::future::ready(Err(refused.into())))
    }

    /// What a run has written.
    fn log(&self) -> Answer<'_, ProgramLog>;

    /// Kills it and removes everything of it. For one that is gone, there is nothing to be done.
    fn remove(&self) -> Answer<'_, ()>;
}

/// What is to be launched: what podman would be asked for, but without what belongs to its network.
///
/// For an executor the program is `/run/sandbox/inside supervise`, which the crate `sandbox-inside`
/// builds and a launcher has to have. It speaks that crate's frames.
#[derive(Clone)]
#[non_exhaustive]
pub struct LaunchPlan {
    /// The name of the container.
    pub name: String,
    /// The image.
    pub image: ImageTag,
    /// `None`: the image's.
    pub entrypoint: Option<Vec<String>>,
    /// The program and its arguments, or what the entry point is given.
    pub command: Vec<String>,
    /// Variables that are set over the image's.
    pub env: ContainerEnv,
    /// `None`: the image's.
    pub working_dir: Option<String>,
    /// The size that its terminal has at first; `None`: it has none, and its streams are apart.
    pub terminal: Option<TerminalSize>,
    /// What of the host it sees: what was asked for, a few files that say what the container and
    /// its neighbours are called, and for Claude Code its state.
    pub mounts: Vec<Mount>,
    /// What it may reach. It is for the launcher to see to that.
    pub network: Network,
    /// What it may use. The time limit is enforced by the sandbox.
    pub limits: ResourceLimits,
    /// How it is confined.
    pub isolation: Isolation,
    /// For a run, how many bytes of its output are to be kept, for [`ProgramControl::log`]. It
    /// reads nothing, and its streams are not held.
    pub log_limit: Option<u64>,
}

/// A further program for a container that runs. It has what the first one was given: user, rights,
/// working directory, variables and limits.
#[derive(Clone)]
#[non_exhaustive]
pub struct ExecSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables that are set over those of the container, such as `TERM`.
    pub variables: BTreeMap<String, String>,
    /// The size that its terminal has at first; `None`, the default: it has none, and its streams
    /// are apart.
    pub terminal: Option<TerminalSize>,
}

impl ExecSpec {
    /// A program and its arguments, without a terminal.
    pub fn new<T: Into<String>>(command: impl IntoIterator<Item = T>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        Self { command, variables: BTreeMap::new(), terminal: None }
    }

    /// Gives it a terminal of this size at first. Its stderr is a part of its stdout then.
    #[must_use]
    pub fn terminal(mut self, size: TerminalSize) -> Self {
        self.terminal = Some(size);
        self
    }

    /// Sets a variable over those of the container.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }
}

/// Arguments may hold what must not be in a log.
impl fmt::Debug for ExecSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecSpec").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

/// A program that was started.
#[derive(Debug)]
pub struct LaunchedProgram {
    /// What it reads. It is shut down where that ends.
    pub stdin: Stdin,
    /// What it writes. It ends when the program has ended.
    pub output: Output,
    /// Everything else.
    pub control: Arc<dyn ProgramControl>,
}

/// What a run has written so far, as far as it is kept.
#[derive(Debug)]
pub struct ProgramLog {
    /// Whether the run had ended before the output was looked at, so that it is all there.
    pub ended: bool,
    /// From the first byte that is kept on.
    pub output: Output,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Exit {
    /// The exit code of its process; 128 and the signal's number where a signal ended it.
    pub code: i64,
    /// Whether one of its processes was killed for want of memory. Podman 4 does not notice it on
    /// every host.
    pub oom_killed: bool,
}

impl Exit {
    /// An end with this exit code, not for want of memory.
    #[must_use]
    pub fn new(code: i64) -> Self {
        Self { code, oom_killed: false }
    }
}

impl LaunchPlan {
    pub(crate) fn new(launch: &Launch, plan: ContainerPlan) -> Self {
        Self {
            name: plan.name,
            image: launch.image.clone(),
            entrypoint: plan.entrypoint,
            command: plan.command,
            env: plan.env,
            working_dir: plan.working_dir,
            terminal: plan.terminal,
            mounts: plan.mounts,
            network: launch.network.clone(),
            limits: launch.limits,
            isolation: plan.isolation,
            log_limit: plan.detachment.log_limit,
        }
    }
}

/// Arguments may hold what must not be in a log.
impl fmt::Debug for LaunchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchPlan")
            .field("name", &self.name)
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

/// What an injected launcher will launch.
#[derive(Debug)]
pub(crate) struct Injected {
    launcher: Arc<dyn Launcher>,
    plan: LaunchPlan,
}

impl Injected {
    pub(crate) fn new(launcher: &Arc<dyn Launcher>, plan: LaunchPlan) -> Self {
        Self { launcher: Arc::clone(launcher), plan }
    }

    pub(crate) fn name(&self) -> &str {
        &self.plan.name
    }

    pub(crate) async fn launch(&self) -> Result<LaunchedProgram, ContainerError> {
        self.launcher.launch(&self.plan).await
    }
}
