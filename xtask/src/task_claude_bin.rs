//! `claude-bin`: finds Claude Code's program, or fetches it with npm.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::claude_code;

#[derive(Args)]
pub(crate) struct ClaudeBinArgs {
    /// Use this program; else `CLAUDE_BIN`, else `claude` on PATH, else npm's.
    #[arg(long, value_name = "PATH")]
    claude_bin: Option<PathBuf>,
}

/// Prints the program's path.
pub(crate) fn run(args: &ClaudeBinArgs) -> Result<()> {
    println!("{}", claude_code::installed_program(args.claude_bin.as_deref())?.display());
    Ok(())
}
