//! `trust`.

use std::path::PathBuf;

use clap::Args;

use super::{ImageArgs, Output};

#[derive(Debug, Args)]
#[command(after_help = "\
A project's files decide what a run may do, and tasks can write to the project. So a configuration that asks for more than a task has \
anyway, an allowlist, an image of this machine, and a Dockerfile with the files it copies count only after you trusted them, and only as \
long as no byte of them changes. Files that no task can have written, such as a policy in /etc, need no trust.

Each right is a line: first those that are new since you trusted the project last (+), then those that go (-), then the counts. Only the \
version that you trusted last counts: going back to an older one asks again.

Examples:
  sandbox trust
  sandbox trust --show
  sandbox trust --list
  sandbox --trust=sha256:... trust           # only what `--show` showed
  sandbox --trust=sha256:... run -- make     # without a terminal")]
pub(crate) struct TrustArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,
    /// Allowlist file to trust [default: .sandbox/network-allowlist.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) allowlist: Option<PathBuf>,
    /// Show all rights and the files' digest, and trust nothing
    #[arg(long, conflicts_with_all = ["revoke", "list"])]
    pub(crate) show: bool,
    /// List the projects that are trusted, when that was, and how many rights they have
    #[arg(long, conflicts_with = "revoke")]
    pub(crate) list: bool,
    /// Revoke all trust for this project
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
