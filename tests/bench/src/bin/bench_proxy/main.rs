//! Measures the proxy: its start, its memory, and requests through it compared with direct requests
//! to the origin.
//!
//! Client and origin are this process; the proxy is the real static program with its real control
//! channel. It needs dedicated addresses with the ports 53, 80 and 443 free: `cargo xtask bench`
//! gives it a network namespace.

mod answers;
mod authority;
mod connection;
mod load;
mod process;
mod report;
mod rounds;
mod signing;

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use test_world::world::WorldServer;

/// Measures the proxy and prints the result as JSON.
#[derive(Parser)]
struct Args {
    /// The static `sandbox-proxy`.
    #[arg(long)]
    program: PathBuf,
    /// An address for the origin and its name server.
    #[arg(long)]
    origin: Ipv4Addr,
    /// An address for the proxy.
    #[arg(long)]
    listen: Ipv4Addr,
    /// Fewer and shorter rounds.
    #[arg(long)]
    quick: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let world =
        WorldServer::start(args.origin).with_context(|| format!("failed to listen at {}", args.origin))?;
    let report = rounds::measure(&args, world.roots_pem()).await?;
    let text = serde_json::to_string_pretty(&report).context("failed to write the report")?;
    writeln!(std::io::stdout(), "{text}").context("failed to print the report")
}
