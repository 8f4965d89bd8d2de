//! Requests of the sandbox.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::CommandLimits;

/// One command.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A program.
    Run {
        /// The program or shell line.
        command: CommandLine,
        /// Overrides variables of the container.
        env: BTreeMap<String, String>,
        /// `None`: the container's.
        working_dir: Option<String>,
        /// Whether it reads [`Frame::Input`](crate::Frame::Input); else it reads nothing.
        input: bool,
        /// Its own limits, within those of the container.
        limits: CommandLimits,
    },
    /// Writes the input to a file; creates missing parent folders.
    Write {
        /// Its path.
        path: String,
    },
    /// Prints a file.
    Read {
        /// Its path.
        path: String,
        /// Maximum size in bytes; a larger file is an error.
        limit: u64,
    },
}

/// A line for a shell, or a program with its arguments.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandLine {
    /// For `/bin/bash -c`, or `/bin/sh -c` without bash.
    Shell(String),
    /// The program first.
    Program(Vec<String>),
}

impl Request {
    /// Its resource limits.
    #[must_use]
    pub fn limits(&self) -> CommandLimits {
        match self {
            Self::Run { limits, .. } => *limits,
            Self::Write { .. } | Self::Read { .. } => CommandLimits::default(),
        }
    }

    /// Whether it reads input from the sandbox.
    #[must_use]
    pub fn has_input(&self) -> bool {
        match self {
            Self::Run { input, .. } => *input,
            Self::Write { .. } => true,
            Self::Read { .. } => false,
        }
    }
}

/// Arguments and variables may contain secrets, which must not be logged.
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
    fn debug_form_hides_arguments_and_values() {
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
