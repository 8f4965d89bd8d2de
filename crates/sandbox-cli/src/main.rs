//! The `sandbox` command.
//!
//! [`args`] is the command line, [`config`] the environment and `sandbox.yaml`, [`settings`] what both come to, decided once;
//! each module of [`commands`] does one thing with its settings and a [`Printer`] and says how the program ends
//! ([`exit_status`]). stdout is data, stderr everything else.

mod args;
mod commands;
mod config;
mod credentials;
mod exit_status;
mod failure;
mod image_context;
mod interrupt;
mod launch;
mod network_log;
mod printer;
mod run_folder;
mod settings;
mod table;
mod trace;
mod workspace;

use std::process::ExitCode;

use clap::Parser as _;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::args::Cli;
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;

fn main() -> ExitCode {
    no_core_dumps();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too. Nobody is left to be told when this cannot be printed.
            let _ = error.print();
            let status = if error.use_stderr() {
                ExitStatus::Usage
            } else {
                ExitStatus::Success
            };
            return status.into();
        }
    };
    let environment = Environment::of_this_process();
    let printer = Printer::new(cli.global.verbose, environment.text("NO_COLOR").is_some());
    let status = start(cli, &environment, printer).unwrap_or_else(|failure| {
        printer.failure(&failure);
        failure.status()
    });
    status.into()
}

/// What this program holds of real credentials is not to land in a file when it is killed. Where the kernel does not let us, the
/// program is as good as any other.
fn no_core_dumps() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, none);
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

fn start(cli: Cli, environment: &Environment, printer: Printer) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::doing("start the program's threads"))?;
    let ended = runtime.block_on(commands::dispatch(cli, environment, printer));
    // A thread may be inside a read of stdin, or a write that nobody takes: it is not waited for.
    runtime.shutdown_background();
    ended
}
