//! What leaves a run to a process of its own, and what finds it again.

use clap::Args;

use super::RunArg;
use crate::terminal::DetachKeys;

#[derive(Debug, Clone, Args)]
pub(crate) struct BackgroundArgs {
    /// Give it a terminal: this one, unless -d is given too
    #[arg(short = 't', long = "tty")]
    pub(crate) terminal: bool,
    /// Run in the background, and print the run's id
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Keys that leave the run to itself; none: ''
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    pub(crate) detach_keys: DetachKeys,
    /// For those who are used to `-it`: stdin is passed on in any case.
    #[arg(short = 'i', long = "interactive", hide = true)]
    _interactive: bool,
}

impl BackgroundArgs {
    /// In the background, without a terminal.
    pub(crate) fn detached() -> Self {
        Self { terminal: false, detach: true, detach_keys: DetachKeys::default(), _interactive: false }
    }

    /// On this terminal, which these keys leave.
    pub(crate) fn on_terminal(detach_keys: DetachKeys) -> Self {
        Self { terminal: true, detach: false, detach_keys, _interactive: false }
    }

    /// Whether a process of its own owns the run.
    pub(crate) fn has_owner(&self) -> bool {
        self.terminal || self.detach
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunsArg {
    /// Runs, by their ids or the beginnings of them
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Prints a line for each run as it ends: its id, and its exit code. The exit code is that of the run; of several, of the first that failed. \
125 means that a run was killed before it could note its end.")]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) runs: RunsArg,
    /// Return when the first has ended
    #[arg(long)]
    pub(crate) any: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Several may be attached: the first who has a terminal types, the others watch. What the run wrote last is shown first, and of one that has \
ended what is kept: 1 MiB, of a terminal 64 KiB. The exit code is the run's; Ctrl-P Ctrl-Q leaves it to itself.")]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// Keys that leave the run to itself; none: ''
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q")]
    pub(crate) detach_keys: DetachKeys,
}
