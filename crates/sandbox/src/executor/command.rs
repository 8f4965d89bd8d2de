//! What is to be executed.

use std::fmt;
use std::time::Duration;

use sandbox_inside::{CommandLine, Request};

use crate::spec::{ContainerEnv, InvalidSpec};
use crate::task::Input;

/// What the kernel takes as arguments and environment of a program, in bytes, with room to spare.
const LONGEST: usize = 1 << 20;

/// A command: a line for a shell, or a program with its arguments.
///
/// A text is a line for `/bin/bash -c`; in an image without bash, for `/bin/sh -c`. A list is a program and its arguments, taken as they
/// are.
///
/// ```
/// use sandbox::executor::ExecCommand;
///
/// let line: ExecCommand = "echo $HOME | wc -c".into();
/// let list = ExecCommand::from(["printf", "%s", "$HOME"]);
/// assert_ne!(line, list);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ExecCommand(CommandLine);

impl From<&str> for ExecCommand {
    fn from(line: &str) -> Self {
        Self(CommandLine::Shell(line.to_owned()))
    }
}

impl From<String> for ExecCommand {
    fn from(line: String) -> Self {
        Self(CommandLine::Shell(line))
    }
}

impl<T: Into<String>> From<Vec<T>> for ExecCommand {
    fn from(words: Vec<T>) -> Self {
        Self(CommandLine::Program(words.into_iter().map(Into::into).collect()))
    }
}

impl<T: Into<String>, const N: usize> From<[T; N]> for ExecCommand {
    fn from(words: [T; N]) -> Self {
        Self(CommandLine::Program(words.into_iter().map(Into::into).collect()))
    }
}

/// Arguments may hold what must not be in a log.
impl fmt::Debug for ExecCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is special about one command.
#[derive(Debug, Default)]
pub struct ExecOptions {
    /// Wall time. Default: the timeout of the executor's limits.
    pub timeout: Option<Duration>,
    /// Variables that are set over the container's. Unlike those they are in no configuration of the engine.
    pub env: ContainerEnv,
    /// What it reads. Default nothing.
    pub stdin: Input,
    /// The working directory. Default the container's.
    pub working_dir: Option<String>,
}

/// The request for `command`.
pub(super) fn request(command: ExecCommand, options: &ExecOptions) -> Result<Request, InvalidSpec> {
    options.env.validate()?;
    if options.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(InvalidSpec::new("timeout", "must be longer than 0 seconds"));
    }
    let words = match &command.0 {
        CommandLine::Shell(line) => std::slice::from_ref(line),
        CommandLine::Program(words) => words,
    };
    if words.first().is_none_or(String::is_empty) {
        return Err(InvalidSpec::new("command", "is empty; name a program to run"));
    }
    let texts = || words.iter().chain(&options.working_dir);
    if texts().any(|text| text.contains('\0')) {
        return Err(InvalidSpec::new("command", "holds a NUL character"));
    }
    let variables = options.env.variables().iter().flat_map(<[&String; 2]>::from);
    if texts().chain(variables).map(String::len).sum::<usize>() > LONGEST {
        return Err(InvalidSpec::new(
            "command",
            "is longer than 1 MiB, which no program can be started with; use stdin",
        ));
    }
    Ok(Request::Run {
        command: command.0,
        env: options.env.variables().clone(),
        working_dir: options.working_dir.clone(),
        input: !matches!(options.stdin, Input::Empty),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_no_process_can_be_are_refused() {
        let none = ExecOptions::default;
        let long = "x".repeat(LONGEST);
        let with_env = |name: &str, value: &str| ExecOptions {
            env: ContainerEnv::default().with(name, value),
            ..none()
        };
        let zero = ExecOptions { timeout: Some(Duration::ZERO), ..none() };
        for (command, options, field) in [
            ("".into(), none(), Some("command")),
            (Vec::<String>::new().into(), none(), Some("command")),
            (["", "x"].into(), none(), Some("command")),
            ("a\0b".into(), none(), Some("command")),
            (long.clone().into(), none(), None),
            ("x".into(), with_env("A", &long), Some("command")),
            ("x".into(), with_env("A=B", ""), Some("env")),
            ("x".into(), zero, Some("timeout")),
            (vec!["ls", ""].into(), none(), None),
        ] {
            let command: ExecCommand = command;
            let refused = request(command, &options).err();
            assert_eq!(refused.as_ref().map(InvalidSpec::field), field, "{refused:?}");
        }
    }

    #[test]
    fn without_input_there_is_no_stdin() {
        let options = |stdin| ExecOptions { stdin, ..ExecOptions::default() };
        for (stdin, expected) in [(Input::Empty, false), (Input::Bytes(Vec::new()), true)] {
            let request = request("cat".into(), &options(stdin)).unwrap();
            assert_eq!(request.has_input(), expected);
        }
    }
}
