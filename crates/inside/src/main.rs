//! The program: see the library of this package.
#![expect(clippy::print_stdout, reason = "findings are the program's output")]

#[cfg(feature = "attempts")]
mod attempts;
mod supervise;
mod verify;

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use nix::errno::Errno;
use nix::sys::signal::SigSet;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["supervise", rest @ ..] => supervise::start(rest).map(|()| ExitCode::SUCCESS),
        ["start", program, rest @ ..] => return start(program, rest),
        ["verify", order] => verify::verify(order).map(|()| ExitCode::SUCCESS),
        ["exit", code] => Ok(ExitCode::from(code.parse::<u8>().unwrap_or(2))),
        ["attempt", name, rest @ ..] => Ok(verify::attempt(name, rest)),
        #[cfg(feature = "attempts")]
        words => attempts::make(words).map(|()| ExitCode::SUCCESS),
        #[cfg(not(feature = "attempts"))]
        _ => Err(io::Error::other("this program runs only inside a sandbox")),
    };
    done.unwrap_or_else(|error| {
        // In a subreaper, this is the command's stderr. If that fails too, the error cannot be
        // reported.
        let _ = writeln!(io::stderr(), "sandbox-inside: {error}");
        ExitCode::from(125)
    })
}

/// Becomes `program` with all signals unblocked, as a shell would start it; returns its exit code if
/// that fails.
#[expect(clippy::disallowed_methods, reason = "this process becomes the program")]
fn start(program: &str, arguments: &[&str]) -> ExitCode {
    let unblocked = SigSet::empty().thread_set_mask();
    let error = match unblocked {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => error.into(),
    };
    // A script without a first line that names its interpreter.
    if error.raw_os_error() == Some(Errno::ENOEXEC as i32) {
        let _ = Command::new("/bin/sh").arg(found(program)).args(arguments).exec();
    }
    let _ = writeln!(io::stderr(), "sandbox: failed to start `{program}`: {error}");
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// The path of the program with this name or path.
fn found(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").filter(|_| !program.contains('/')).unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.is_file()).unwrap_or_else(|| program.into())
}
