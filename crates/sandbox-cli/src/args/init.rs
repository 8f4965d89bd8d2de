//! `init`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use sandbox::Agent;

#[derive(Debug, Args)]
#[command(after_help = "\
Writes .sandbox/sandbox.yaml, network-allowlist.yaml, build-allowlist.yaml and \
container/Dockerfile in the current folder, for the project's languages. Existing files are not \
changed, and are not trusted; the new files are trusted.")]
pub(crate) struct InitArgs {
    /// Agent to write the files for [default: `agent` of sandbox.yaml, claude]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Agent::NAMES))]
    pub(crate) agent: Option<String>,
    /// Print the files instead of writing them
    #[arg(long)]
    pub(crate) dry_run: bool,
}
