//! The sandbox's own log: on stderr according to `-v`, and in the file of `--log`.

use std::io;
use std::path::Path;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Environment, Places};
use crate::failure::Failure;
use crate::printer::Printer;

/// The mode of a new log file, before the umask.
pub(crate) const LOG_MODE: u32 = 0o666;

/// Starts logging. Only the first call has an effect.
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
    // A second subscriber is refused; the first one remains.
    let _ = tracing_subscriber::registry().with(stderr).with(file).try_init();
    Ok(())
}

/// Only our own crates: messages of dependencies are for their developers.
fn ours(level: LevelFilter) -> Targets {
    Targets::new().with_target("sandbox", level)
}
