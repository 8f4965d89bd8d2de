//! The egress proxy as a program. Its control channel is stdin and stdout, and its log is stderr.
//! The first argument is the minimum log level, by default `warn`. The second is the proxy's reach
//! as JSON; without it, the proxy keeps the rights that it was started with. It reads no
//! environment variables.

mod logging;

use std::io::Write;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};
use sandbox_panic_hook::withhold_panic_messages;
use sandbox_proxy::Confined;
use sandbox_proxy_protocol::Reach;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;

fn main() -> ExitCode {
    withhold_panic_messages();
    if let Err(error) = no_core_dumps() {
        let _ = writeln!(std::io::stderr(), "sandbox-proxy: failed to turn core dumps off: {error}");
        return ExitCode::FAILURE;
    }
    let Some((level, reach)) = arguments() else {
        let _ = writeln!(std::io::stderr(), "usage: sandbox-proxy [error|warn|info|debug [REACH]]");
        return ExitCode::FAILURE;
    };
    // Each thread has its own rights: there is no other thread yet.
    let confined = match reach.map(|reach| confine(&reach)) {
        Some(Ok(confined)) => confined,
        Some(Err(error)) => {
            let _ = writeln!(std::io::stderr(), "sandbox-proxy: failed to give up its rights: {error}");
            return ExitCode::FAILURE;
        }
        None => Err("it was started without its second argument".to_owned()),
    };
    let ended = logging::begin(level).map_err(|error| error.to_string()).and_then(|logging| {
        let ended = run(confined);
        logging.finish();
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The owner got the error on stdout; this is for a person who started the program by
            // hand.
            let _ = writeln!(std::io::stderr(), "sandbox-proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The log level, and the reach if the command line contains one; `None` if one of them is invalid.
fn arguments() -> Option<(LevelFilter, Option<Reach>)> {
    let mut arguments = std::env::args().skip(1);
    let level = arguments.next().map_or(Some(LevelFilter::WARN), |level| level.parse().ok())?;
    let reach = arguments.next().map(|reach| Reach::from_argument(&reach)).transpose().ok()?;
    Some((level, reach))
}

/// Makes the kernel confine this process to `reach`, and gives up every right to change that. The
/// inner error is the reason why the kernel does not confine it.
fn confine(reach: &Reach) -> std::io::Result<Result<Confined, String>> {
    let confined = sandbox_proxy::confine(reach);
    sandbox_proxy::give_up_rights()?;
    Ok(confined.map_err(|error| error.to_string()))
}

fn run(confined: Result<Confined, String>) -> Result<(), String> {
    // With two threads, a request takes up to half as much processor time again, to wake them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    // A panic leaves nothing half alive: the proxy ends, and with it the task's egress.
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(serve(confined))));
    // A thread may be blocked in a read of stdin or in a write, so nothing waits for it.
    runtime.shutdown_background();
    ended.unwrap_or_else(|_panic| Err("ended by a panic".to_owned()))
}

/// The program holds real credentials: no crash may write them to a file, and no other process of
/// its user may read its memory.
fn no_core_dumps() -> nix::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    set_dumpable(false)
}

async fn serve(confined: Result<Confined, String>) -> Result<(), String> {
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let ended = sandbox_proxy::run_until(input(), output(), confined, stop).await;
    ended.map_err(|error| error.to_string())
}

/// The standard input: a pipe is read by the event loop, anything else by a thread.
fn input() -> Box<dyn AsyncRead + Unpin> {
    let pipe = std::io::stdin().as_fd().try_clone_to_owned();
    match pipe.and_then(|pipe| pipe::Receiver::from_file(pipe.into())) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

/// The standard output: a pipe is written by the event loop, anything else by a thread.
fn output() -> Box<dyn AsyncWrite + Unpin + Send> {
    let pipe = std::io::stdout().as_fd().try_clone_to_owned();
    match pipe.and_then(|pipe| pipe::Sender::from_file(pipe.into())) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}
