//! `watch`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Shows this user's runs and their requests live. A key allows a blocked request, for the run only \
or also in the project's allowlist; runs can be cut off from the network or stopped. Each change \
asks first, with the exact rule. ? shows all keys, q quits. Runs continue when it ends.")]
pub(crate) struct WatchArgs {
    /// Run to show first, by its id or a prefix of it [default: the newest]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
}
