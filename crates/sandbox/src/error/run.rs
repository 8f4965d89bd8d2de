//! What can go wrong with a run, in addition to what can go wrong with any container.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::spec::RunName;
use sandbox_workspace::sanitized;

/// Whatever a callback fails with.
pub type HookError = Box<dyn Error + Send + Sync>;

/// A turn in the life of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookStage {
    /// Before anything is made.
    PreStart,
    /// Its process was started.
    PostStart,
    /// It said that it is ready.
    PostReady,
    /// It has ended, or its launch was rolled back.
    PostStop,
}

impl fmt::Display for HookStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PreStart => "pre_start",
            Self::PostStart => "post_start",
            Self::PostReady => "post_ready",
            Self::PostStop => "post_stop",
        })
    }
}

/// A verb on a run that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no run of that name under this prefix.
    #[error("there is no run `{0}`")]
    NotFound(RunName),
    /// There is a run of that name under this prefix, or this sandbox is making one.
    #[error("there is a run `{0}` already; stop it first, or choose another name")]
    NameTaken(RunName),
    /// This sandbox is just creating or starting it. When that verb has ended, the run can be
    /// stopped.
    #[error("run `{0}` is being created or started just now; wait for that, then try again")]
    Busy(RunName),
    /// Only a run that this sandbox created, and that was not started yet, can be started.
    #[error("run `{0}` was not created by this sandbox, or was started before; stop it and create it again")]
    NotStartable(RunName),
    /// Its process was not started yet.
    #[error("run `{0}` is created, but not started")]
    NotStarted(RunName),
    /// Its process has not ended in time. It goes on.
    #[error("run `{run}` has not ended within {after:?}; it goes on")]
    StillRunning {
        /// The run.
        run: RunName,
        /// How long was waited.
        after: Duration,
    },
    /// A callback of the caller's failed.
    #[error("the {stage} hook of run `{run}` failed")]
    Hook {
        /// The run.
        run: RunName,
        /// Which callback.
        stage: HookStage,
        /// What it said.
        source: HookError,
    },
    /// A file of the host cannot be copied.
    #[error("failed to copy `{}`", sanitized(path))]
    Source {
        /// The host's path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something is at the place in the container that cannot take the copy.
    #[error("cannot copy to `{target}` of run `{run}`: {problem}")]
    Target {
        /// The run.
        run: RunName,
        /// The path in the container.
        target: String,
        /// What is there.
        problem: String,
    },
    /// The run's folder on the host cannot be made or removed.
    #[error("failed to {operation} the folder `{}` of a run", path.display())]
    TaskDir {
        /// What was tried.
        operation: &'static str,
        /// The host's path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
