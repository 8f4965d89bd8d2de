//! What can go wrong with the sandbox itself. What can go wrong with a task is an outcome, not an error.

use crate::config::InvalidConfig;
use crate::container::ContainerError;
use crate::egress::ProxyError;
use crate::engine::EngineError;
use crate::image::ImageBuildError;
use crate::reap::LockError;
use crate::session::SessionError;
use crate::spec::{ImageTag, InvalidSpec};
use crate::workspace::WorkspaceError;

/// An infrastructure failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The engine refused, failed or cannot be reached.
    #[error(transparent)]
    Engine(#[from] EngineError),
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
    /// The session could not be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A work tree could not be read, copied or written.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The lock of this instance could not be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The image is gone from the engine.
    #[error("the engine has no image `{0}`; call ensure_image again")]
    NoImage(ImageTag),
    /// A task or command runs once at a time.
    #[error("an execution of this task is already running; wait for it or stop it")]
    Busy,
    /// A live command was given while nothing runs, or to a task without a network sandbox.
    #[error("nothing with a network sandbox is running")]
    NotRunning,
    /// A network was asked for before [`Sandbox::startup`](crate::Sandbox::startup).
    #[error("the sandbox is not started; call startup first")]
    NotStarted,
}
