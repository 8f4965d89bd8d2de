//! Every failure of the infrastructure.

use super::executor::ExecutorError;
use super::image_build::ImageBuildError;
use super::run::RunError;
use super::verify::VerifyError;
use crate::config::InvalidConfig;
use crate::container::ContainerError;
use crate::egress::ProxyError;
use crate::instance::LockError;
use crate::program::ProgramError;
use crate::spec::{ImageTag, InvalidSpec};
use sandbox_gate::GateError;
use sandbox_podman::EngineError;
use sandbox_session::SessionError;
use sandbox_ssh::SshError;
use sandbox_workspace::WorkspaceError;

/// An infrastructure failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The engine refused, failed or cannot be reached.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// There is no engine at the configured address.
    // The beginning is what callers of other sandboxes look for, whichever engine it is.
    #[error(
        "Docker is not running, or rather podman, which takes its place: nothing answers at the engine's socket"
    )]
    EngineNotRunning(#[source] EngineError),
    /// An executor could not do what was asked.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The program that runs inside of containers is missing, or cannot be used.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] InvalidConfig),
    /// What was asked for cannot be done.
    #[error(transparent)]
    Spec(#[from] InvalidSpec),
    /// A container could not be launched, or is not what was asked for.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// An image could not be built.
    #[error(transparent)]
    ImageBuild(#[from] ImageBuildError),
    /// The network of a task could not be set up.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// A verb on a run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The session could not be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A repository of the host could not be made, found or brought up to date.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// SSH keys could not be made or used, or their agent could not be started.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// A work tree could not be read, copied or written.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The lock of this instance could not be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A sandbox could not be verified.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A launcher stands in the place of the engine, and what was called needs one.
    #[error(
        "this sandbox has a launcher in the place of podman, which launches tasks, commands, executors and runs, and can do nothing \
         else; start one with `Sandbox::start` for this"
    )]
    NoEngine,
    /// The image is gone from the engine.
    #[error("Image not found: the engine has no image `{0}`; call ensure_image again")]
    NoImage(ImageTag),
    /// A task or command runs once at a time.
    #[error("an execution of this task is already running; wait for it or stop it")]
    Busy,
    /// A live command was given while nothing runs, or to a task without a network sandbox.
    #[error("nothing with a network sandbox is running")]
    NotRunning,
    /// A fault of ours ended the teardown of an execution half way.
    #[error(
        "the teardown of an execution did not finish, which is a fault in the sandbox; its objects are removed by label"
    )]
    TeardownFailed,
}

impl SandboxError {
    /// Whether the engine does not answer, whatever was asked of it: its service is not started, or
    /// it went away meanwhile.
    #[must_use]
    pub fn is_engine_unreachable(&self) -> bool {
        match self {
            Self::EngineNotRunning(_) => true,
            Self::Engine(error)
            | Self::Container(ContainerError::Engine(error))
            | Self::ImageBuild(
                ImageBuildError::Engine(error) | ImageBuildError::Container(ContainerError::Engine(error)),
            )
            | Self::Proxy(ProxyError::Engine(error) | ProxyError::Container(ContainerError::Engine(error))) => {
                error.is_unreachable()
            }
            _ => false,
        }
    }

    /// The same, reported as [`SandboxError::EngineNotRunning`] where it means that.
    pub(crate) fn or_engine_not_running(self) -> Self {
        match self {
            Self::Engine(error) | Self::Container(ContainerError::Engine(error))
                if error.is_unreachable() =>
            {
                Self::EngineNotRunning(error)
            }
            other => other,
        }
    }
}
