//! `report`.

use std::path::PathBuf;

use clap::Args;

use super::Output;

#[derive(Debug, Args)]
#[command(after_help = "\
The page has no script and loads nothing: open it in any browser, send it, or print it.

Example: xdg-open \"$(sandbox report)\"")]
pub(crate) struct ReportArgs {
    /// Run to report on [default: this project's newest]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// File to write [default: report.html in the run's folder of the state directory]
    #[arg(short, long, value_name = "FILE", conflicts_with = "output")]
    pub(crate) file: Option<PathBuf>,
    /// Output format; json is printed, and no page is written
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
