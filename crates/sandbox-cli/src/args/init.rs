//! `init`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use sandbox::Agent;

#[derive(Debug, Args)]
#[command(after_help = "\
Writes .sandbox/sandbox.yaml, network-allowlist.yaml, build-allowlist.yaml and container/Dockerfile in the current folder, for the languages that its \
files name. What is there already stays as it is. What was written is trusted; files that were there are not.")]
pub(crate) struct InitArgs {
    /// Agent to write them for [default: `agent` of sandbox.yaml, claude]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Agent::NAMES))]
    pub(crate) agent: Option<String>,
    /// Print the files, and write none
    #[arg(long)]
    pub(crate) dry_run: bool,
}
