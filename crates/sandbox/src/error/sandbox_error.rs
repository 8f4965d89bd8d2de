//! Every infrastructure failure.

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
    /// The engine refused, failed or is unreachable.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// There is no engine at the configured address.
    // Callers of other sandboxes match on the beginning, for any engine.
    #[error("Docker is not running: podman, which replaces it, is not reachable at the engine's socket")]
    EngineNotRunning(#[source] EngineError),
    /// An operation of an executor failed.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The program that runs inside of containers is missing, or unusable.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] InvalidConfig),
    /// The specification is invalid.
    #[error(transparent)]
    Spec(#[from] InvalidSpec),
    /// A container could not be launched, or is not what was requested.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// An image could not be built.
    #[error(transparent)]
    ImageBuild(#[from] ImageBuildError),
    /// The network of a task could not be set up.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// An operation on a run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The session could not be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A repository of the host could not be created, found or updated.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// SSH keys could not be created or used, or their agent could not be started.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// A work tree could not be read, copied or written.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The lock of this instance could not be acquired.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A sandbox could not be verified.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A launcher replaces the engine, and the called operation needs one.
    #[error(
        "this operation needs podman, and the launcher of this sandbox only launches tasks, commands, executors and runs; start a \
         sandbox with `Sandbox::start`"
    )]
    NoEngine,
    /// The image no longer exists on the engine.
    #[error("Image not found: the engine has no image `{0}`; call ensure_image again")]
    NoImage(ImageTag),
    /// A task or command has at most one execution at a time.
    #[error("an execution of this task is already running; wait for it or stop it")]
    Busy,
    /// A live control was used while nothing runs, or on a task without a network sandbox.
    #[error("nothing with a network sandbox is running")]
    NotRunning,
    /// An internal error ended the teardown of an execution half way.
    #[error(
        "the teardown of an execution did not finish, which is a bug in the sandbox; its objects are removed by label"
    )]
    TeardownFailed,
}

impl SandboxError {
    /// Whether the engine is unreachable, for any operation: its service is not started, or stopped
    /// meanwhile.
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

    /// Converts to [`SandboxError::EngineNotRunning`] where that is the cause.
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
