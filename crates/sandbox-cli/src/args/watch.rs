//! `watch`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Shows the runs of this user with their requests as they come. Requests that were blocked can be allowed with a key, for the run or in the \
project's allowlist too; runs can be cut off from the network or stopped. Each change asks first, with the exact rule. ? shows all keys, q \
leaves. Runs go on when it ends.")]
pub(crate) struct WatchArgs {
    /// Run to show first, by its id or the beginning of it [default: the newest]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
}
