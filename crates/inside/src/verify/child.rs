//! Processes started for a check, inside the container.

use std::io::{self, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// This program, independent of its mount point.
const SELF: &str = "/proc/self/exe";
const DEADLINE: Duration = Duration::from_secs(20);

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    /// `None`: a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    /// Its output.
    pub(super) output: String,
}

/// Runs this program with the attempt `name`.
pub(super) fn attempt(name: &str, arguments: &[&str]) -> io::Result<Ended> {
    run(command(Path::new(SELF)).arg("attempt").arg(name).args(arguments))
}

/// Runs a program of the image.
pub(super) fn program(path: &Path, arguments: &[&str]) -> io::Result<Ended> {
    run(command(path).args(arguments))
}

/// Runs `path`, a copy of this program, as another user.
pub(super) fn attempt_as(path: &Path, user: u32, name: &str) -> io::Result<Ended> {
    run(command(path).uid(user).gid(user).arg("attempt").arg(name))
}

#[expect(clippy::disallowed_methods, reason = "inside of the container there is no engine to ask")]
fn command(path: &Path) -> Command {
    Command::new(path)
}

fn run(command: &mut Command) -> io::Result<Ended> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let status = await_end(&mut child)?;
    let mut output = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        // The output is a line or two, which always fits into a pipe.
        let _ = stdout.read_to_string(&mut output);
    }
    Ok(Ended { code: status.code(), signal: status.signal(), output: output.trim().to_owned() })
}

fn await_end(child: &mut Child) -> io::Result<std::process::ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begun.elapsed() > DEADLINE {
            child.kill()?;
            return child.wait();
        }
        // tidy: sleep: the standard library cannot wait for a process with a deadline
        std::thread::sleep(Duration::from_millis(2));
    }
}
