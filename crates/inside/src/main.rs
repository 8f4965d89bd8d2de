//! The program: see the library of this package.
#![expect(clippy::print_stdout, reason = "findings are the program's output")]

#[cfg(feature = "attempts")]
mod attempts;
mod supervise;
mod verify;

use std::io::{self, Write as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["supervise", rest @ ..] => supervise::start(rest).map(|()| ExitCode::SUCCESS),
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
