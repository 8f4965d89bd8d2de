//! Flags for runs that a separate process owns, and `attach`.

use clap::Args;

use super::RunArg;
use crate::terminal::DetachKeys;

#[derive(Debug, Clone, Args)]
pub(crate) struct BackgroundArgs {
    /// Allocate a terminal: connected to this one unless -d is given too
    #[arg(short = 't', long = "tty")]
    pub(crate) terminal: bool,
    /// Run in the background, and print the run's id
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Keys that detach from the run; '' disables them
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    pub(crate) detach_keys: DetachKeys,
    /// Accepted for users of `-it`; stdin is always passed on.
    #[arg(short = 'i', long = "interactive", hide = true)]
    _interactive: bool,
}

impl BackgroundArgs {
    /// In the background, without a terminal.
    pub(crate) fn detached() -> Self {
        Self { terminal: false, detach: true, detach_keys: DetachKeys::default(), _interactive: false }
    }

    /// On this terminal; `detach_keys` detach from it.
    pub(crate) fn on_terminal(detach_keys: DetachKeys) -> Self {
        Self { terminal: true, detach: false, detach_keys, _interactive: false }
    }

    /// Whether a separate process owns the run.
    pub(crate) fn has_owner(&self) -> bool {
        self.terminal || self.detach
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunsArg {
    /// Ids of runs, or prefixes of them
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Prints a line for each run as it ends: its id, and its exit code. The exit code is that of the run; of several, of the first that failed. \
A run that was killed before it could record its end counts as 125.")]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) runs: RunsArg,
    /// Return when the first has ended
    #[arg(long)]
    pub(crate) any: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Several clients can attach: the first one with a terminal has the input, the others watch. The \
latest output of the run is shown first, also after its end: up to 1 MiB, or 64 KiB of a terminal. \
The exit code is the run's; Ctrl-P Ctrl-Q detaches.")]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// Keys that detach from the run; '' disables them
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    pub(crate) detach_keys: DetachKeys,
}
