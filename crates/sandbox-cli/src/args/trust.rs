//! `trust`.

use std::path::PathBuf;

use clap::Args;

use super::{ImageArgs, Output};

#[derive(Debug, Args)]
#[command(after_help = "\
A project's files decide what a run may do, and tasks can write to the project. So a configuration \
that requests more than a task has by default, an allowlist, a local image, and a Dockerfile with \
the files it copies take effect only after you trust them, and only until any byte of them \
changes. Files that no task could have written, such as a policy in /etc, need no trust.

Each right is one line: first rights added since you last trusted the project (+), then removed \
ones (-), then the counts. Only the last trusted version counts: going back to an older one asks \
again.

Examples:
  sandbox trust
  sandbox trust --show
  sandbox trust --list
  sandbox --trust=sha256:... trust           # exactly what `--show` showed
  sandbox --trust=sha256:... run -- make     # without a terminal")]
pub(crate) struct TrustArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Allowlist file to trust [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Show all rights and the digest of the files, without trusting them
    #[arg(long, conflicts_with_all = ["revoke", "list"])]
    pub(crate) show: bool,
    /// List trusted projects, with the time of the decision and the number of rights
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) list: bool,
    /// Revoke all trust for this project
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
