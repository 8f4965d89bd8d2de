//! How a command ended.

use serde::{Deserialize, Serialize};

use crate::ExceededLimit;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With this exit code; 128 plus the signal's number where a signal ended it.
    Exited(i32),
    /// It was killed, with every process it started, since it exceeded this limit of its own.
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
        /// What failed, and why.
        problem: String,
    },
}

impl End {
    /// Of a process that a signal killed: SIGKILL, since nothing else is known.
    #[must_use]
    pub fn killed() -> Self {
        Self::Exited(137)
    }
}
