//! What the sandbox asks for.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::CommandLimits;

/// What one command is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A program.
    Run {
        /// What to run.
        command: CommandLine,
        /// Set over those of the container.
        env: BTreeMap<String, String>,
        /// `None`: the container's.
        working_dir: Option<String>,
        /// Whether it reads [`Frame::Input`](crate::Frame::Input); else it reads nothing.
        input: bool,
        /// Of its own, within those of the container.
        limits: CommandLimits,
    },
    /// Writes a file with what comes as input; folders above it are made.
    Write {
        /// Its path.
        path: String,
    },
    /// Prints a file.
    Read {
        /// Its path.
        path: String,
        /// A larger one is a failure. Bytes.
        limit: u64,
    },
}

/// A line for a shell, or a program with its arguments.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandLine {
    /// For `/bin/bash -c`, or `/bin/sh -c` where there is no bash.
    Shell(String),
    /// The program first.
    Program(Vec<String>),
}

impl Request {
    /// What it may use.
    #[must_use]
    pub fn limits(&self) -> CommandLimits {
        match self {
            Self::Run { limits, .. } => *limits,
            Self::Write { .. } | Self::Read { .. } => CommandLimits::default(),
        }
    }

    /// Whether it reads what the sandbox sends.
    #[must_use]
    pub fn has_input(&self) -> bool {
        match self {
            Self::Run { input, .. } => *input,
            Self::Write { .. } => true,
            Self::Read { .. } => false,
        }
    }
}

/// Arguments and variables may hold what must not be logged.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { env, .. } => f.debug_struct("Run").field("env", &env.keys()).finish_non_exhaustive(),
            Self::Write { path } => f.debug_struct("Write").field("path", path).finish(),
            Self::Read { path, limit } => {
                f.debug_struct("Read").field("path", path).field("limit", limit).finish()
            }
        }
    }
}

impl fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shell(_) => "Shell(..)",
            Self::Program(_) => "Program(..)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_values_are_not_shown() {
        let request = Request::Run {
            command: CommandLine::Shell("echo hunter2".to_owned()),
            env: BTreeMap::from([("TOKEN".to_owned(), "hunter2".to_owned())]),
            working_dir: None,
            input: false,
            limits: CommandLimits::default(),
        };
        let text = format!("{request:?} {:?}", CommandLine::Shell("hunter2".to_owned()));
        assert!(text.contains("TOKEN") && !text.contains("hunter2"), "{text}");
    }
}
