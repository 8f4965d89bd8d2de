//! `policy …` and `stop`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Output;
use crate::config::time;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
RUN is an instance from `sandbox status`, or a prefix of its id; it can be omitted while exactly \
one run is active. A command returns when the change is in force and in the network log.")]
pub(crate) enum PolicyCommand {
    /// Show a run's policy and the state of its shield
    Show {
        #[command(flatten)]
        run: RunArg,
        /// Output format
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Replace a run's policy
    Set {
        /// Allowlist file
        file: PathBuf,
        #[command(flatten)]
        run: RunArg,
    },
    /// Lower a run's shield for a time, so that it reaches any public host
    ///
    /// Private and reserved addresses stay out of reach, credentials stay masked, and every request
    /// is logged: `[shield: down]` marks requests that no rule allows.
    Down {
        /// Duration: a number and s, m or h; at most 24h
        #[arg(long = "for", value_name = "TIME", value_parser = time)]
        time: Duration,
        #[command(flatten)]
        run: RunArg,
    },
    /// Raise a run's shield again before its time is over
    Up {
        #[command(flatten)]
        run: RunArg,
    },
    /// Cut a run off from the network permanently
    Quarantine {
        #[command(flatten)]
        run: RunArg,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArg {
    /// Run, by its id or a prefix of it [default: the only active run]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The program gets SIGTERM, and is killed after 5 seconds; `sandbox run`, `agent` or `exec` ends \
with exit code 143.")]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) run: RunArg,
    /// Stop all runs of this user
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,
}
