//! What the sandbox itself does: on stderr as far as `-v` goes, and in the file of `--log`.

use std::io;
use std::path::Path;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Environment, Places};
use crate::failure::Failure;
use crate::printer::Printer;

/// Of a log that is made: the umask takes its share.
pub(crate) const LOG_MODE: u32 = 0o666;

/// Begins to write. The first call counts.
pub(crate) fn begin(printer: Printer, log: Option<&Path>, environment: &Environment) -> Result<(), Failure> {
    let level = match printer.verbosity() {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(printer.has_colour())
        .without_time()
        .with_target(false)
        .with_filter(ours(level));
    let file = log.map(|path| -> Result<_, Failure> {
        let resolver = Places::find(environment)?.resolver(Path::new("."))?;
        let opened = resolver.append(path, LOG_MODE);
        opened.map_err(Failure::doing(format!("open the log `{}`", path.display())))
    });
    let file = file.transpose()?.map(|file| {
        tracing_subscriber::fmt::layer()
            .with_writer(file)
            .with_ansi(false)
            .with_filter(ours(LevelFilter::DEBUG))
    });
    // A second subscriber is refused; the first one goes on.
    let _ = tracing_subscriber::registry().with(stderr).with(file).try_init();
    Ok(())
}

/// Only our own crates: what libraries below say is for those who write them.
fn ours(level: LevelFilter) -> Targets {
    Targets::new().with_target("sandbox", level)
}
