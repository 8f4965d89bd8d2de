//! `allowlist …`.

use std::ffi::OsString;
use std::path::PathBuf;

use allowlist::Preset;
use clap::{Args, Subcommand};

use super::task::preset;
use super::{Output, PolicyArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum AllowlistCommand {
    /// Show which rule allows each request, or why it is blocked
    Check(CheckArgs),
    /// Find rules that allow more than meant, or nothing
    Lint(LintArgs),
    /// Add a rule to the allowlist
    Allow(EditArgs),
    /// Remove from the allowlist what allows this
    Deny(EditArgs),
    /// List the presets that an allowlist can name, or show the rules of one
    Presets {
        /// Preset to show, as a policy in YAML
        #[arg(value_name = "NAME", value_parser = preset)]
        name: Option<Preset>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 all allowed, 1 any blocked, 2 a line that cannot be read.

Examples:
  sandbox allowlist check https://api.github.com/repos/o/r
  printf 'GET https://a.example/\\nPOST https://b.example/\\n' | sandbox allowlist check --output json -")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
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

#[derive(Debug, Args)]
#[command(after_help = "\
RULE is HOST, HOST/PATH (patterns, * is any text) or a URL, which stands for itself; methods can come before it. The file is changed in place, with its \
comments, and made where there is none. It stays trusted if it was. A run that is going on keeps its policy, see `sandbox policy set`.

Exit codes of deny: 0 nothing allows it any more, 1 something else does.

Examples:
  sandbox allowlist allow api.example.com
  sandbox allowlist allow 'GET,HEAD api.example.com/repos/*'
  sandbox allowlist deny POST https://api.example.com/gists")]
pub(crate) struct EditArgs {
    /// Allowlist file [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Rule, in one argument or two
    #[arg(required = true, num_args = 1..=2, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
}
