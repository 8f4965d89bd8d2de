//! Attempts that change the calling process.

use std::process::ExitCode;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::SigSet;

use super::child;

/// Makes the attempt `name`; the exit code is the kernel's error, 0 for success.
pub(crate) fn attempt(name: &str, arguments: &[&str]) -> ExitCode {
    let outcome = match name {
        "user-namespace" => unshare(CloneFlags::CLONE_NEWUSER),
        "identity" => {
            println!("{}", nix::unistd::geteuid());
            Ok(())
        }
        "memory" => {
            take(arguments.first().and_then(|bytes| bytes.parse().ok()).unwrap_or_default());
            Ok(())
        }
        "outlive" => outlive(arguments.is_empty()),
        _ => Err(nix::errno::Errno::EINVAL),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(u8::try_from(error as i32).unwrap_or(u8::MAX)),
    }
}

/// Allocates `bytes` of memory and writes to each page.
fn take(bytes: usize) {
    const PIECE: usize = 1 << 20;
    let mut pieces = Vec::new();
    for number in 0..bytes / PIECE {
        pieces.push(vec![u8::try_from(number % 255).unwrap_or_default() | 1; PIECE]);
    }
    println!("{}", pieces.iter().map(Vec::len).sum::<usize>());
}

/// Ignores signals, and starts another process in its own session.
fn outlive(is_first: bool) -> nix::Result<()> {
    if is_first {
        // Its result is irrelevant: it exists to be killed with the container.
        std::thread::spawn(|| child::attempt("outlive", &["again"]));
    } else {
        nix::unistd::setsid()?;
    }
    SigSet::all().thread_block()?;
    // tidy: sleep: it exists to be killed
    std::thread::sleep(Duration::from_hours(1));
    Ok(())
}
