//! `config …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check configuration and allowlist as a run would, without an engine
    Check(ConfigCheckArgs),
    /// Print the JSON Schema of sandbox.yaml, for editors
    #[command(after_help = "\
Editors with YAML support use it with a first line such as `# yaml-language-server: \
$schema=schema.json`, and must be configured to accept the tag `!env`.")]
    Schema,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each error starts with its file, line and column. The report also lists which credentials would be \
masked for which hosts, never their values.

Exit codes: 0 no errors, possibly warnings; 125 a run would fail.")]
pub(crate) struct ConfigCheckArgs {
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
