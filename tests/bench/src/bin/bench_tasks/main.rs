//! Measures tasks: a sandboxed `true` compared with a bare container of the same image on the same
//! socket.
//!
//! Each round runs the same `true` in several ways, one after the other, and waits for the engine's
//! cleanup after each.

mod apply;
mod at_once;
mod bare;
mod days;
mod in_flight;
mod report;
mod rounds;
mod sandboxed;
mod terminal;
mod worktree;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

/// Measures tasks and prints the result as JSON.
#[derive(Parser)]
struct Args {
    /// The engine's socket, as `unix:///path`.
    #[arg(long)]
    engine: String,
    /// An image that the engine already has.
    #[arg(long)]
    image: String,
    /// The `sandbox` command.
    #[arg(long)]
    sandbox: PathBuf,
    /// The folder of the static `sandbox-proxy`.
    #[arg(long)]
    proxy_dir: PathBuf,
    /// The engine's own command.
    #[arg(long)]
    podman: PathBuf,
    /// Measured rounds; a warm-up round precedes them.
    #[arg(long)]
    rounds: u32,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let report = rounds::measure(&args).await?;
    let text = serde_json::to_string_pretty(&report).context("failed to write the report")?;
    writeln!(std::io::stdout(), "{text}").context("failed to print the report")
}
