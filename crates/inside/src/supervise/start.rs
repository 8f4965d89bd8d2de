//! Starts this process in its role: PID 1, or the subreaper of one command.

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::running::SUBREAPER;
use super::{init, subreaper};

/// Serves the sandbox, or one command.
pub(crate) fn start(arguments: &[&str]) -> io::Result<()> {
    // Commands of the same user must not read our memory or open our streams.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    match arguments {
        [] => init::run(),
        [SUBREAPER] => subreaper::run(),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}
