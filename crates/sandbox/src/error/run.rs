//! Errors of runs, in addition to those of any container.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::spec::RunName;
use sandbox_workspace::sanitized;

/// Any error of a callback.
pub type HookError = Box<dyn Error + Send + Sync>;

/// A stage in the life of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookStage {
    /// Before anything is created.
    PreStart,
    /// Its process was started.
    PostStart,
    /// It reported that it is ready.
    PostReady,
    /// It ended, or its launch was rolled back.
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

/// An operation on a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no run of that name with this prefix.
    #[error("there is no run `{0}`")]
    NotFound(RunName),
    /// A run of that name exists with this prefix, or this sandbox is creating one.
    #[error("there is a run `{0}` already; stop it first, or choose another name")]
    NameTaken(RunName),
    /// This sandbox is creating or starting it at the moment. When that operation has ended, the
    /// run can be stopped.
    #[error("run `{0}` is being created or started; try again when that has ended")]
    Busy(RunName),
    /// Only a run that this sandbox created, and that was not started yet, can be started.
    #[error("run `{0}` was not created by this sandbox, or was started before; stop it and create it again")]
    NotStartable(RunName),
    /// Its process has not been started yet.
    #[error("run `{0}` is created, but not started")]
    NotStarted(RunName),
    /// Its process did not end in time. It continues.
    #[error("run `{run}` did not end within {after:?}; it continues")]
    StillRunning {
        /// The run.
        run: RunName,
        /// The time that was waited.
        after: Duration,
    },
    /// A callback of the caller failed.
    #[error("the {stage} hook of run `{run}` failed")]
    Hook {
        /// The run.
        run: RunName,
        /// The stage of the callback.
        stage: HookStage,
        /// The callback's error.
        source: HookError,
    },
    /// A file of the host could not be copied.
    #[error("failed to copy `{}`", sanitized(path))]
    Source {
        /// The path on the host.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An existing entry in the container prevents the copy.
    #[error("failed to copy to `{target}` of run `{run}`: {problem}")]
    Target {
        /// The run.
        run: RunName,
        /// The path in the container.
        target: String,
        /// The problem with the existing entry.
        problem: String,
    },
    /// The run's folder on the host could not be created or removed.
    #[error("failed to {operation} the folder `{}` of a run", path.display())]
    TaskDir {
        /// The operation that failed.
        operation: &'static str,
        /// The path on the host.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
