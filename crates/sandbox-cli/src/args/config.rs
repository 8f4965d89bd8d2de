//! `config …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Reads configuration and allowlist as a run would, and tells all that is wrong, without an engine
    Check(ConfigCheckArgs),
    /// Prints the JSON Schema of sandbox.yaml, for editors
    #[command(after_help = "\
Editors that know YAML take it from a first line such as `# yaml-language-server: $schema=schema.json`, and want to be told of the tag `!env`.")]
    Schema,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each line of a fault begins with its file, line and column. It also shows which credentials would be masked, for which hosts, never \
what they are.

Exit codes: 0 nothing is wrong, though there may be warnings; 125 a run would fail.")]
pub(crate) struct ConfigCheckArgs {
    /// What may be reached [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
