//! How a command ended.

use serde::{Deserialize, Serialize};

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// With this exit code; 128 and the signal's number where a signal ended it.
    Exited(i32),
    /// It never began: the program is not there.
    NotFound {
        /// The program.
        program: String,
    },
    /// It never began: the program is there and cannot be executed.
    NotExecutable {
        /// The program.
        program: String,
    },
    /// What was asked for could not be done.
    Failed {
        /// What, and why.
        problem: String,
    },
}

impl End {
    /// Of a process that a signal killed: SIGKILL, as nothing else is known.
    #[must_use]
    pub fn killed() -> Self {
        Self::Exited(137)
    }
}
