//! A subreaper: starts one command, and is the parent of all orphans of that command until it has
//! ended.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, setsid, wait};
use sandbox_inside::{CommandLine, End, Request};

use super::{file, handover};

/// The shells for a line, in order of preference.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Runs the request from the socket at stdin, and reports its end there.
pub(super) fn run() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    // No terminal, and no process group that other commands could signal.
    setsid()?;
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (request, input) = handover::take(&mut socket)?;
    let end = match request {
        Request::Run { command, env, working_dir, .. } => {
            let start = |line: &[String]| {
                let mut command = command_of(line, input.as_ref())?;
                command.envs(&env);
                if let Some(folder) = &working_dir {
                    command.current_dir(folder);
                }
                command.spawn().map(|child| Pid::from_child(&child))
            };
            match working_dir.as_deref().filter(|folder| !Path::new(folder).is_dir()) {
                Some(folder) => End::Failed {
                    problem: format!("the working directory `{}` is not a folder", folder.escape_debug()),
                },
                None => run_line(&command, start),
            }
        }
        Request::Write { path } => file::write(Path::new(&path), input),
        Request::Read { path, limit } => file::read(Path::new(&path), limit),
    };
    socket.write_all(&serde_json::to_vec(&end)?)
}

fn run_line(line: &CommandLine, start: impl Fn(&[String]) -> io::Result<Pid>) -> End {
    let lines: Vec<Vec<String>> = match line {
        CommandLine::Program(words) => vec![words.clone()],
        CommandLine::Shell(text) => {
            SHELLS.map(|shell| vec![shell.to_owned(), "-c".to_owned(), text.clone()]).to_vec()
        }
    };
    let mut failure = End::NotFound { program: String::new() };
    for words in &lines {
        match start(words) {
            Ok(main) => return End::Exited(wait_for(main)),
            Err(error) => failure = not_started(words.first().cloned().unwrap_or_default(), &error),
        }
        if !matches!(failure, End::NotFound { .. }) {
            break;
        }
    }
    failure
}

#[expect(
    clippy::disallowed_methods,
    reason = "it runs in a container, to start the programs that the sandbox asks for"
)]
fn command_of(words: &[String], input: Option<&OwnedFd>) -> io::Result<Command> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(arguments).process_group(0);
    // Replaces our socket, which commands must not get.
    command.stdin(match input {
        Some(pipe) => Stdio::from(pipe.try_clone()?),
        None => Stdio::null(),
    });
    Ok(command)
}

fn not_started(program: String, error: &io::Error) -> End {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => End::NotFound { program },
        (io::ErrorKind::PermissionDenied, _) => End::NotExecutable { program },
        (_, Some(number)) if number == rustix::io::Errno::NOEXEC.raw_os_error() => {
            End::NotExecutable { program }
        }
        _ => End::Failed { problem: format!("failed to start `{}`: {error}", program.escape_debug()) },
    }
}

/// The exit code of `main`. Orphans are reaped meanwhile: they count towards the container's limit
/// of processes.
fn wait_for(main: Pid) -> i32 {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main => {
                return status
                    .exit_status()
                    .or_else(|| status.terminating_signal().map(|signal| 128 + signal))
                    .unwrap_or(137);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Unreachable: `main` is our child, and nothing else waits for it.
            Err(_) => return 137,
        }
    }
}
