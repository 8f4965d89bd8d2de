//! `run`.

use clap::Args;

use super::TaskArgs;

#[derive(Debug, Args)]
#[command(after_help = "\
The current folder is mounted at /workspace and is the working directory. stdin, stdout and stderr are passed through byte for byte.

Example: sandbox run --timeout 600 -- cargo test")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}
