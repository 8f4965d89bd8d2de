//! The program: PID 1 of a container, or, started by PID 1, the keeper of one command.

mod control;
mod file;
mod handover;
mod keeper;
mod processes;
mod running;
mod supervise;

use std::process::ExitCode;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// The argument with which PID 1 starts a keeper.
const KEEPER: &str = "keeper";

fn main() -> ExitCode {
    // Commands of the same user must not read our memory or open our streams.
    let hidden = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let done = match std::env::args().nth(1).as_deref() {
        _ if hidden.is_err() => hidden.map_err(Into::into),
        None => supervise::supervise(),
        Some(KEEPER) => keeper::keep(),
        Some(_) => Err(std::io::Error::other("it takes no arguments")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Of a keeper, this is the command's stderr. Nobody else is left to be told when that fails.
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "sandbox-supervisor: {error}");
            ExitCode::from(125)
        }
    }
}
