//! `tidy`: checks the house rules that a program can check.

use anyhow::{Result, bail};
use clap::Args;

use crate::report::say;
use crate::tidy::{self, Finding, Source};

#[derive(Args)]
pub(crate) struct TidyArgs {}

/// Prints every finding with file and line, and fails if there is one.
pub(crate) fn run(_: &TidyArgs) -> Result<()> {
    let sources = tidy::sources()?;
    let mut findings = tidy::check_arrows()?;
    findings.extend(tidy::check_locks());
    findings.extend(tidy::check_circles(&sources));
    findings.extend(tidy::check_paths(&sources));
    findings.extend(tidy::check_threats(&sources));
    findings.extend(sources.iter().flat_map(of_file));
    let (sizes, over) = tidy::check_sizes(&sources);
    findings.extend(over);
    println!("{}", sizes.table());
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        say(format!("tidy: {} files without findings", sources.len()));
        return Ok(());
    }
    bail!("tidy found {} violations of the house rules", findings.len())
}

fn of_file(source: &Source) -> Vec<Finding> {
    let checks = [tidy::check_shape, tidy::check_bans, tidy::check_hosts];
    checks.iter().flat_map(|check| check(source)).collect()
}
