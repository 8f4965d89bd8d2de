//! `logs`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Run to show, by its id or a prefix of it [default: this project's newest]
    #[arg(value_name = "RUN", conflicts_with_all = ["run", "file"])]
    pub(crate) id: Option<String>,
    /// The same
    #[arg(long, value_name = "ID", conflicts_with = "file")]
    pub(crate) run: Option<String>,
    /// Another log file, such as one written by --network-log
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Show the program's output instead of the network log, of a run with a terminal or in the
    /// background
    #[arg(long, conflicts_with_all = ["file", "blocked", "output"])]
    pub(crate) program: bool,
    /// Follow the log until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Show only blocked requests
    #[arg(long)]
    pub(crate) blocked: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: LogOutput,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogOutput {
    /// One line per event, for people
    #[default]
    Text,
    /// One JSON object per event
    Json,
    /// One JSON object per event, as the Open Cybersecurity Schema Framework 1.8.0 has it
    Ocsf,
}
