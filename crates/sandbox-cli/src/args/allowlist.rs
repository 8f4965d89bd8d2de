//! `allowlist …`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum AllowlistCommand {
    /// Show which rule allows each request, or why it is blocked
    Check(CheckArgs),
    /// Find rules that allow more than meant, or nothing
    Lint(LintArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 all allowed, 1 any blocked, 2 a line that cannot be read.

Examples:
  sandbox allowlist check https://api.github.com/repos/o/r
  printf 'GET https://a.example/\\nPOST https://b.example/\\n' | sandbox allowlist check --output json -")]
pub(crate) struct CheckArgs {
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Method of the requests
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Output format; json: one object a line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
    /// URLs; `-`: read lines of `URL` or `METHOD URL` from stdin
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 nothing to say, 1 warnings, 125 a policy that cannot be read.")]
pub(crate) struct LintArgs {
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
}
