//! `report`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::Output;
use crate::config::duration;

#[derive(Debug, Args)]
#[command(after_help = "\
The page has no script and loads nothing: open it in any browser, send it, or print it.

Examples:
  xdg-open \"$(sandbox report)\"
  xdg-open \"$(sandbox report --since 7d)\"")]
pub(crate) struct ReportArgs {
    /// Run to report on [default: this project's newest]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Report on all runs of this project, except those in work trees of their own, that began within
    /// this time, such as 7d or 12h
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "run")]
    pub(crate) since: Option<Duration>,
    /// File to write [default: report.html in the folder of the run, or of the project's runs, in the
    /// state directory]
    #[arg(short, long, value_name = "FILE", conflicts_with = "output")]
    pub(crate) file: Option<PathBuf>,
    /// Output format; json is printed, and no page is written
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
