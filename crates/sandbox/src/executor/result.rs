//! Results of commands.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use sandbox_inside::ExceededLimit;
use sandbox_workspace::{GitChanges, TamperedPath};
use serde::Serialize;

use crate::task::text;

/// The result of an executor's command.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExecResult {
    /// The command's own exit code; 128 + signal when a signal ended it; 124 on a timeout, like
    /// `timeout(1)`; 137 when it was killed because it exceeded a limit of its own.
    pub exit_code: i32,
    /// The output on stdout, also after a timeout: at most the executor's output limit. Of longer
    /// output both ends are kept, and between them a line states the number of bytes cut.
    #[serde(serialize_with = "text")]
    pub stdout: Vec<u8>,
    /// The output on stderr, in the same form.
    #[serde(serialize_with = "text")]
    pub stderr: Vec<u8>,
    /// The number of bytes cut from stdout.
    pub stdout_cut: u64,
    /// The number of bytes cut from stderr.
    pub stderr_cut: u64,
    /// Whether it was ended by its timeout.
    pub timed_out: bool,
    /// The limit of [`ExecOptions`](crate::executor::ExecOptions) for exceeding which it was
    /// killed. `None` when the kernel refuses or kills at the limits of the container.
    pub exceeded: Option<ExceededLimit>,
    /// From its start to its end, without the start of its container.
    pub duration: Duration,
    /// Tampered paths found in [protected](crate::Mount::protected) mounts since the last result,
    /// and moved away. A container's mounts are inspected when it has ended: with
    /// [`ExecutorMode::Fresh`](crate::executor::ExecutorMode::Fresh) before the result of its
    /// command, with [`ExecutorMode::Reuse`](crate::executor::ExecutorMode::Reuse) when it ended on
    /// its own, or in [`Executor::cleanup`](crate::executor::Executor::cleanup). Of concurrent
    /// commands in one mount, any may report the findings of another.
    pub tampered: Vec<TamperedPath>,
    /// The changes to repositories of such mounts since the last result that were imported, and
    /// those that were not. Like [`tampered`](Self::tampered), they are known when the container
    /// has ended.
    pub git: GitChanges,
}

impl ExecResult {
    /// The exit code of a command that timed out.
    pub const TIMED_OUT: i32 = 124;

    /// The exit code of a command that was killed with SIGKILL, for example because it exceeded a
    /// limit of its own.
    pub const KILLED: i32 = 137;

    /// Whether it ended by itself with exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit_code == 0 && !self.timed_out && self.exceeded.is_none()
    }

    /// Whether its output was cut.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.stdout_cut + self.stderr_cut > 0
    }

    /// The output on stdout as text; invalid UTF-8 is replaced.
    #[must_use]
    pub fn stdout_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// The output on stderr as text; invalid UTF-8 is replaced.
    #[must_use]
    pub fn stderr_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

impl fmt::Debug for ExecResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecResult")
            .field("exit_code", &self.exit_code)
            .field("timed_out", &self.timed_out)
            .field("exceeded", &self.exceeded)
            .field("stdout", &self.stdout_text())
            .field("stderr", &self.stderr_text())
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}
