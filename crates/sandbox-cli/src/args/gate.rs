//! `gate …`.

use clap::{Args, Subcommand};

use super::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum GateCommand {
    /// Create a repository unless it exists
    Init(GateInitArgs),
    /// List the repositories
    List(GateListArgs),
    /// Fetch from upstreams, and fast-forward refs
    Sync(GateSyncArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GateInitArgs {
    /// Name: 1 to 64 letters, digits, `.`, `_` and `-`
    pub(crate) name: String,
    /// Mirror this repository: https://…, ssh://…, git@host:path or an absolute path
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GateListArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct GateSyncArgs {
    /// Repositories to update [default: all with an upstream]
    pub(crate) names: Vec<String>,
    /// Also apply rewritten and deleted refs; the old ones are kept below refs/sandbox/backup/
    #[arg(long)]
    pub(crate) force: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
