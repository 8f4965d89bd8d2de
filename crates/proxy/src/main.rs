//! The egress proxy as a program: its control channel is its stdin and stdout, its log is its stderr. Its one argument is the least level
//! that is logged, `warn` without it; it reads no environment.

mod logging;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};
use sandbox_panic_hook::withhold_panic_messages;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;

fn main() -> ExitCode {
    withhold_panic_messages();
    if let Err(error) = no_core_dumps() {
        let _ = writeln!(std::io::stderr(), "sandbox-proxy: failed to turn core dumps off: {error}");
        return ExitCode::FAILURE;
    }
    let Some(level) = level() else {
        let _ = writeln!(std::io::stderr(), "usage: sandbox-proxy [error|warn|info|debug]");
        return ExitCode::FAILURE;
    };
    let ended = logging::begin(level).map_err(|error| error.to_string()).and_then(|logging| {
        let ended = run();
        logging.finish();
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The owner got the error on stdout; this is for a person who started the program by hand.
            let _ = writeln!(std::io::stderr(), "sandbox-proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The level of the command line; `None` where that is none.
fn level() -> Option<LevelFilter> {
    std::env::args().nth(1).map_or(Some(LevelFilter::WARN), |level| level.parse().ok())
}

fn run() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    // Where it panics nothing is left half alive: the proxy ends, and with it the task's way out.
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(serve())));
    // A thread may be inside a read of stdin, or a write that blocks: it is not waited for.
    runtime.shutdown_background();
    ended.unwrap_or_else(|_panic| Err("ended by a panic".to_owned()))
}

/// The program holds real credentials: no crash may write them to a file, and no other process of its user may read its memory.
fn no_core_dumps() -> nix::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    set_dumpable(false)
}

async fn serve() -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let ended = sandbox_proxy::run_until(tokio::io::stdin(), tokio::io::stdout(), stop).await;
    ended.map_err(|error| error.to_string())
}
