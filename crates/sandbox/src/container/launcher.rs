//! The interface of replacements of the engine, which launch and monitor programs.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::spec::{ContainerEnv, ImageTag, Isolation, Launch, Mount, Network, ResourceLimits};
use sandbox_podman::{EngineError, Output, Stdin, TerminalSize};

use super::error::ContainerError;
use super::plan::ContainerPlan;

/// The future of a [`Launcher`]'s answer.
pub type Answer<'a, T, E = EngineError> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// Launches programs instead of the engine, see
/// [`Sandbox::with_launcher`](crate::Sandbox::with_launcher).
pub trait Launcher: fmt::Debug + Send + Sync {
    /// Whether there is an image with this name.
    fn has_image<'a>(&'a self, image: &'a str) -> Answer<'a, bool>;

    /// Starts the program of `plan`. A program that failed to start, or whose future was dropped,
    /// must leave nothing.
    fn launch<'a>(&'a self, plan: &'a LaunchPlan) -> Answer<'a, LaunchedProgram, ContainerError>;
}

/// A program that was started: waits for it, ends it and removes it. Any number of callers may do
/// so concurrently.
pub trait ProgramControl: fmt::Debug + Send + Sync {
    /// Waits for its end. It is an error if its exit is unknown: it may then still run.
    fn wait(&self) -> Answer<'_, Exit>;

    /// Asks it to end, and kills it after the stop timeout of its plan's isolation. Returns when it
    /// is dead.
    fn stop(&self) -> Answer<'_, ()>;

    /// Kills it without waiting. Does nothing for a program that has ended.
    fn kill(&self) -> Answer<'_, ()>;

    /// Resizes its terminal. An error, also by default, if it has none that can be resized.
    fn resize(&self, _size: TerminalSize) -> Answer<'_, ()> {
        let refused = EngineError::refused(
            "resize the terminal of",
            "program",
            "it has no terminal that can be resized",
        );
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Starts a further program in its container, confined in the same way. It ends when this one
    /// does. An error, also by default, if the launcher does not support it.
    fn exec<'a>(&'a self, _spec: &'a ExecSpec) -> Answer<'a, LaunchedProgram, ContainerError> {
        let refused =
            EngineError::refused("start a command next to", "program", "its launcher does not support it");
        Box::pin(std::future::ready(Err(refused.into())))
    }

    /// The output of a run.
    fn log(&self) -> Answer<'_, ProgramLog>;

    /// Kills it and removes all its objects. Does nothing if they no longer exist.
    fn remove(&self) -> Answer<'_, ()>;
}

/// The plan of a launch: the request to podman, without the parts of the network.
///
/// For an executor the program is `/run/sandbox/inside supervise`, which the crate `sandbox-inside`
/// builds and a launcher must provide. It uses that crate's frames.
#[derive(Clone)]
#[non_exhaustive]
pub struct LaunchPlan {
    /// The name of the container.
    pub name: String,
    /// The image.
    pub image: ImageTag,
    /// `None`: the image's.
    pub entrypoint: Option<Vec<String>>,
    /// The program and its arguments, or the arguments of the entry point.
    pub command: Vec<String>,
    /// Variables that are added to the image's.
    pub env: ContainerEnv,
    /// `None`: the image's.
    pub working_dir: Option<String>,
    /// The initial size of its terminal. `None`: it has none, and stdout and stderr are separate.
    pub terminal: Option<TerminalSize>,
    /// The host's files that it sees: the specified mounts, a few files for host name and hosts,
    /// and an agent's state.
    pub mounts: Vec<Mount>,
    /// The network, which the launcher must enforce.
    pub network: Network,
    /// The limits. The sandbox enforces the time limit.
    pub limits: ResourceLimits,
    /// The confinement.
    pub isolation: Isolation,
    /// For a run, the bytes of output to keep for [`ProgramControl::log`]. It has no stdin, and its
    /// streams are not attached.
    pub log_limit: Option<u64>,
}

/// A further program for a running container. It has the first one's user, privileges, working
/// directory, variables and limits.
#[derive(Clone)]
#[non_exhaustive]
pub struct ExecSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables that override those of the container, such as `TERM`.
    pub variables: BTreeMap<String, String>,
    /// The initial size of its terminal. `None`, the default: it has none, and stdout and stderr
    /// are separate.
    pub terminal: Option<TerminalSize>,
}

impl ExecSpec {
    /// A program and its arguments, without a terminal.
    pub fn new<T: Into<String>>(command: impl IntoIterator<Item = T>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        Self { command, variables: BTreeMap::new(), terminal: None }
    }

    /// Gives it a terminal with this initial size. Its stderr is then a part of its stdout.
    #[must_use]
    pub fn terminal(mut self, size: TerminalSize) -> Self {
        self.terminal = Some(size);
        self
    }

    /// Sets a variable, which overrides the container's.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }
}

/// Arguments may hold values that must not be logged.
impl fmt::Debug for ExecSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecSpec").field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

/// A program that was started.
#[derive(Debug)]
pub struct LaunchedProgram {
    /// Its stdin. It is closed at the end of the input.
    pub stdin: Stdin,
    /// Its output. It ends when the program has ended.
    pub output: Output,
    /// The control of the program.
    pub control: Arc<dyn ProgramControl>,
}

/// The output of a run so far, as far as it was kept.
#[derive(Debug)]
pub struct ProgramLog {
    /// Whether the run had ended before the output was read, so that the output is complete.
    pub ended: bool,
    /// The output from the first kept byte.
    pub output: Output,
}

/// The exit of a program.
#[derive(Debug, Clone, Copy, Eq, Serialize)]
#[non_exhaustive]
pub struct Exit {
    /// The exit code of its process; 128 + signal when a signal ended it.
    pub code: i64,
    /// Whether one of its processes was killed for lack of memory. Podman 4 does not detect it on
    /// every host.
    pub oom_killed: bool,
    /// Whether all processes of its container are known to have ended with it.
    #[serde(skip)]
    pub(crate) all_ended: bool,
}

impl PartialEq for Exit {
    fn eq(&self, other: &Self) -> bool {
        (self.code, self.oom_killed) == (other.code, other.oom_killed)
    }
}

impl Exit {
    /// An exit with this code, not for lack of memory.
    #[must_use]
    pub fn new(code: i64) -> Self {
        Self { code, oom_killed: false, all_ended: false }
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

/// Arguments may hold values that must not be logged.
impl fmt::Debug for LaunchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchPlan")
            .field("name", &self.name)
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

/// The launch of an injected launcher.
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
