//! Commands of an executor.

use std::fmt;
use std::time::Duration;

use sandbox_inside::{CommandLimits, CommandLine, Request};

use crate::spec::{ByteSize, ContainerEnv, InvalidSpec, Launch, Runtime};
use crate::task::Input;

/// The kernel's limit on arguments and environment of a program, in bytes, minus a margin.
const LONGEST: usize = 1 << 20;

/// A command: a line for a shell, or a program with its arguments.
///
/// A text is a line for `/bin/bash -c`; in an image without bash, for `/bin/sh -c`. A list is a
/// program and its arguments, passed unchanged.
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

/// Arguments may hold values that must not be logged.
impl fmt::Debug for ExecCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Options of one command.
///
/// `memory` and `pids` keep one command from using up the resources of the others in its container.
/// The container's first process checks the command about 20 times a second, less often if there
/// are many processes or no free processor. A command that exceeds a limit is killed, with
/// everything that it started, in any session or process group:
/// [`ExecResult::exceeded`](crate::executor::ExecResult::exceeded). Until then it can use
/// everything that its container has. The kernel enforces the container's own limits,
/// [`ResourceLimits`](crate::ResourceLimits), which are the bound for hostile commands.
///
/// A limit above the container's is an error. So is any limit in gVisor, where each command has a
/// container to itself. The limits also work with an engine that cannot limit containers because it
/// has no control groups.
#[derive(Debug, Default)]
pub struct ExecOptions {
    /// Wall-clock time. Default: the timeout of the executor's limits.
    pub timeout: Option<Duration>,
    /// Memory of all its processes together, without mappings of files on disk, and including swap.
    /// Shared memory counts once, unless a process hides its mappings. Default: the container's
    /// limit only.
    ///
    /// Only mapped memory counts. In-memory files (`/tmp`, `/dev/shm`, `memfd_create`), pipes and
    /// sockets do not, so a hostile command can use more, up to the container's limit.
    pub memory: Option<ByteSize>,
    /// Its processes and threads, without the one that supervises it. Default: the container's
    /// limit only.
    pub pids: Option<u32>,
    /// Variables that override the container's. Unlike those, they are not in the engine's
    /// configuration of the container.
    pub env: ContainerEnv,
    /// Its stdin. Default: empty.
    pub stdin: Input,
    /// The working directory. Default: the container's.
    pub working_dir: Option<String>,
}

/// The request for `command`, in a container that `launch` describes.
pub(super) fn request(
    command: ExecCommand,
    options: &ExecOptions,
    launch: &Launch,
) -> Result<Request, InvalidSpec> {
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
            "must be at most 1 MiB, with its variables; use stdin for more",
        ));
    }
    Ok(Request::Run {
        command: command.0,
        env: options.env.variables().clone(),
        working_dir: options.working_dir.clone(),
        input: !matches!(options.stdin, Input::Empty),
        limits: limits(options, launch)?,
    })
}

fn limits(options: &ExecOptions, launch: &Launch) -> Result<CommandLimits, InvalidSpec> {
    let limits = CommandLimits { memory: options.memory.map(ByteSize::bytes), pids: options.pids };
    within("memory", "bytes", limits.memory, launch.limits.memory.map(ByteSize::bytes))?;
    within("pids", "processes", limits.pids, launch.limits.pids)?;
    if launch.isolation.runtime == Some(Runtime::Runsc) && limits != CommandLimits::default() {
        return Err(InvalidSpec::new(
            if limits.memory.is_some() { "memory" } else { "pids" },
            "of one command cannot be limited in gVisor; limit the container, which each command has to itself there",
        ));
    }
    Ok(limits)
}

fn within<T: Copy + Default + PartialOrd + fmt::Display>(
    field: &str,
    unit: &str,
    limit: Option<T>,
    container: Option<T>,
) -> Result<(), InvalidSpec> {
    match (limit, container) {
        (Some(limit), _) if limit == T::default() => Err(InvalidSpec::new(field, "must be more than 0")),
        (Some(limit), Some(most)) if limit > most => Err(InvalidSpec::new(
            field,
            format!("{limit} {unit} exceed the container's limit of {most}; raise that limit"),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ImageTag, Isolation, ResourceLimits};

    fn launch(limits: ResourceLimits, runtime: Option<Runtime>) -> Launch {
        let isolation = Isolation { runtime, ..Isolation::untrusted() };
        Launch { limits, isolation, ..Launch::new("c".to_owned(), ImageTag::new("localhost/x:1")) }
    }

    #[test]
    fn command_that_cannot_be_executed_is_refused() {
        let none = ExecOptions::default;
        let long = "x".repeat(LONGEST);
        let with_env = |name: &str, value: &str| ExecOptions {
            env: ContainerEnv::default().with(name, value),
            ..none()
        };
        let zero = ExecOptions { timeout: Some(Duration::ZERO), ..none() };
        let launch = launch(ResourceLimits::untrusted(), None);
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
            let refused = request(command, &options, &launch).err();
            assert_eq!(refused.as_ref().map(InvalidSpec::field), field, "{refused:?}");
        }
    }

    #[test]
    fn command_without_input_gets_no_stdin() {
        let options = |stdin| ExecOptions { stdin, ..ExecOptions::default() };
        for (stdin, expected) in [(Input::Empty, false), (Input::Bytes(Vec::new()), true)] {
            let request = request("cat".into(), &options(stdin), &launch(ResourceLimits::default(), None));
            let request = request.unwrap();
            assert_eq!(request.has_input(), expected);
        }
    }

    #[test]
    fn limit_that_cannot_be_enforced_is_refused() {
        let container = launch(ResourceLimits::untrusted(), None);
        let unlimited = launch(ResourceLimits::default(), None);
        let in_gvisor = launch(ResourceLimits::untrusted(), Some(Runtime::Runsc));
        let options = |memory, pids| ExecOptions { memory, pids, ..ExecOptions::default() };
        let mib = |number| Some(ByteSize::mib(number));
        for (options, launch, refusal) in [
            (options(mib(512), Some(100)), &container, None),
            (
                options(mib(513), None),
                &container,
                Some("memory: 537919488 bytes exceed the container's limit of 536870912"),
            ),
            (
                options(None, Some(101)),
                &container,
                Some("pids: 101 processes exceed the container's limit of 100"),
            ),
            (options(mib(0), None), &container, Some("memory: must be more than 0")),
            (options(None, Some(0)), &container, Some("pids: must be more than 0")),
            (options(mib(513), Some(101)), &unlimited, None),
            (options(mib(1), None), &in_gvisor, Some("memory: of one command cannot")),
            (options(None, Some(1)), &in_gvisor, Some("pids: of one command cannot")),
            (options(None, None), &in_gvisor, None),
        ] {
            let refused = request("x".into(), &options, launch).err().map(|error| error.to_string());
            let as_expected = match (&refused, refusal) {
                (Some(refused), Some(refusal)) => refused.starts_with(refusal),
                (refused, refusal) => refused.is_none() && refusal.is_none(),
            };
            assert!(as_expected, "{refused:?}");
        }
    }
}
