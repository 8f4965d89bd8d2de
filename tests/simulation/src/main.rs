//! A model of many agents on a cluster, each task a bundle that a node runs: which resource limits
//! them? It runs nothing and measures nothing. What it assumes is in `parameters`; the README has what
//! it leaves out.

mod cluster;
mod outcome;
mod parameters;
mod report;
mod resources;
mod scenario;

use std::io::Write as _;

use anyhow::{Context, Result};
use clap::Parser;
use parameters::Parameters;

/// Simulates the tasks as given, and again with one thing changed at a time.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    parameters: Parameters,
}

fn main() -> Result<()> {
    let Cli { parameters } = Cli::parse();
    parameters.check()?;
    let text = report::tables(&scenario::run_all(&parameters));
    write!(std::io::stdout(), "{text}").context("failed to print the tables")
}
