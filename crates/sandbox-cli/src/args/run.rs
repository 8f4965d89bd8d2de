//! `run`.

use clap::Args;

use super::{BackgroundArgs, TaskArgs};
use crate::terminal::DetachKeys;

#[derive(Debug, Args)]
#[command(after_help = "\
The current folder is mounted at /workspace and is the working directory. stdin, stdout and stderr \
are passed through byte for byte; on a terminal, escape sequences that set the clipboard or inject \
input are removed (see --raw-terminal).

With -t the command has a terminal. Ctrl-P Ctrl-Q, or closing the terminal, leaves it running: see \
`sandbox ps`, `attach` and `stop`.

Examples:
  sandbox run --timeout 600 -- cargo test
  sandbox run -t -- python3")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    #[command(flatten)]
    pub(crate) background: BackgroundArgs,
    /// Program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Like `sandbox run -t -- bash`, or sh if the image has no bash.")]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) task: TaskArgs,
    /// Keys that detach from the shell; '' disables them
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    pub(crate) detach_keys: DetachKeys,
}

impl ShellArgs {
    /// The `run` command that this is a shorthand of.
    pub(crate) fn into_run(self) -> RunArgs {
        let script = "if command -v bash > /dev/null; then exec bash; else exec sh; fi";
        RunArgs {
            task: self.task,
            background: BackgroundArgs::on_terminal(self.detach_keys),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        }
    }
}
