//! The program from its start to its exit code.

use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Parser as _;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use sandbox_logins::Login;
use sandbox_panic_hook::withhold_panic_messages;

use crate::args::Cli;
use crate::commands;
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
#[cfg(feature = "forced-panic")]
use crate::forced_panic;
use crate::owner::Owner;
use crate::printer::Printer;
use crate::removal;

/// Reads the command line, runs the command, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    withhold_panic_messages();
    no_core_dumps();
    if let Some(code) = removal::of_this_process(std::env::args_os()) {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors of clap too.
            let shown = error.print().and_then(|()| io::stdout().flush());
            // An error of stderr cannot be reported anywhere.
            if error.use_stderr() {
                return ExitStatus::Usage.into();
            }
            let printer = Printer::new(0, true);
            printer.has_written(shown);
            return ended(Ok(ExitStatus::Success), printer);
        }
    };
    let environment = Environment::of_this_process();
    let printer = Printer::new(cli.global.verbose, environment.text("NO_COLOR").is_some());
    let printer =
        printer.color(cli.global.color).quiet(cli.global.quiet).raw_terminal(cli.global.raw_terminal);
    ended(start(cli, &environment, printer), printer)
}

fn ended(result: Result<ExitStatus, Failure>, printer: Printer) -> ExitCode {
    let result = result.and_then(|status| printer.ending(status));
    let status = result.unwrap_or_else(|failure| {
        printer.failure(&failure);
        failure.status()
    });
    status.into()
}

/// Keeps real credentials in memory out of core dumps. If the kernel refuses it, the program
/// continues like any other.
fn no_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

fn start(cli: Cli, environment: &Environment, printer: Printer) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Failure::doing("start the async runtime"))?;
    if cli.global.owner {
        Owner::begin().map_err(Failure::doing("make this process the owner of a run"))?;
    }
    let work = async {
        let result = Box::pin(commands::dispatch(cli, environment, printer)).await;
        match Owner::of_this_process() {
            Some(owner) => owner.end(result, printer).await,
            None => result,
        }
    };
    #[cfg(feature = "forced-panic")]
    let work = forced_panic::unless_asked(work);
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
    // The new tokens of a login that was just refreshed exist only in memory until they are saved.
    let _settled = runtime.block_on(Login::settled());
    // Threads that block in a read of stdin or in a write are not waited for.
    runtime.shutdown_background();
    // Rust's exit code for a panic, 101, could be the command's own.
    ended.unwrap_or_else(|_panic| {
        Err(Failure::new("the sandbox panicked; this is a bug")
            .with_hint("the next run removes its objects from the engine; please report the location above"))
    })
}
