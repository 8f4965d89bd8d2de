//! What a command came to.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use sandbox_inside::ExceededLimit;
use sandbox_workspace::{GitChanges, TamperedPath};
use serde::Serialize;

use crate::task::text;

/// What a command of an executor came to.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExecResult {
    /// The command's own exit code; 128 + signal when a signal ended it; 124, as `timeout(1)` has
    /// it, when its time was over; 137 when it was killed since it exceeded a limit of its own.
    pub exit_code: i32,
    /// What it wrote on stdout, also when its time was over: at most the executor's output limit of
    /// it. Of more, both ends are kept and between them a line says how many bytes were cut.
    #[serde(serialize_with = "text")]
    pub stdout: Vec<u8>,
    /// The same for stderr.
    #[serde(serialize_with = "text")]
    pub stderr: Vec<u8>,
    /// How many bytes of stdout were cut.
    pub stdout_cut: u64,
    /// How many bytes of stderr were cut.
    pub stderr_cut: u64,
    /// Whether it was ended because its time was over.
    pub timed_out: bool,
    /// The limit of [`ExecOptions`](crate::executor::ExecOptions) that it was killed for, since it
    /// exceeded it. `None` for what the kernel refuses or kills at the limits of the container.
    pub exceeded: Option<ExceededLimit>,
    /// From its start to its end, without the start of a container for it.
    pub duration: Duration,
    /// What was found in [protected](crate::Mount::protected) mounts since the last result, and
    /// moved away. A container's mounts are looked through when it has ended: with
    /// [`ExecutorMode::Fresh`](crate::executor::ExecutorMode::Fresh) before the result of its
    /// command, with [`ExecutorMode::Reuse`](crate::executor::ExecutorMode::Reuse) when it ended on
    /// its own, or in [`Executor::cleanup`](crate::executor::Executor::cleanup). Of commands that
    /// run side by side in one mount, any may report what another tampered with.
    #[serde(rename = "planted")]
    pub tampered: Vec<TamperedPath>,
    /// What came of what was done in repositories of such mounts since the last result, and what
    /// did not: as [`tampered`](Self::tampered), it is known when the container has ended.
    pub git: GitChanges,
}

impl ExecResult {
    /// Of a command whose time was over.
    pub const TIMED_OUT: i32 = 124;

    /// Of a command that was killed with SIGKILL, as one is that exceeds a limit of its own.
    pub const KILLED: i32 = 137;

    /// Whether it ended by itself with exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit_code == 0 && !self.timed_out && self.exceeded.is_none()
    }

    /// Whether something was cut from what it wrote.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.stdout_cut + self.stderr_cut > 0
    }

    /// What it wrote on stdout as text; bytes that are none are replaced.
    #[must_use]
    pub fn stdout_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// The same for stderr.
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
