//! The end of a command.

use serde::{Deserialize, Serialize};

use crate::ExceededLimit;

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With this exit code; 128 plus the signal's number if a signal ended it.
    Exited(i32),
    /// It was killed, with every process that it started, because it exceeded this limit of its
    /// own.
    Exceeded(ExceededLimit),
    /// It never started: there is no such program.
    NotFound {
        /// The program.
        program: String,
    },
    /// It never started: the program cannot be executed.
    NotExecutable {
        /// The program.
        program: String,
    },
    /// The request failed.
    Failed {
        /// The failure and its cause.
        problem: String,
    },
}

impl End {
    /// For a process that was killed by a signal: SIGKILL, since the signal is unknown.
    #[must_use]
    pub fn killed() -> Self {
        Self::Exited(137)
    }
}
