//! `ps`: the runs of this user that are going on.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::args::Output;
use crate::control::{Report, Runs, ScreenReport};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::table::aligned;

/// What `--output json` prints; it changes its version when a field changes its meaning or goes
/// away.
#[derive(Debug, Serialize)]
struct RunsReport<'a> {
    version: u32,
    runs: Vec<RunReport<'a>>,
}

#[derive(Debug, Serialize)]
struct RunReport<'a> {
    id: &'a str,
    pid: u32,
    started_ms: u64,
    project: &'a str,
    program: &'a str,
    state: &'static str,
    terminal: bool,
}

/// Prints them, the newest last.
pub(crate) async fn ps(output: Output, state: &Path, printer: Printer) -> Result<ExitStatus, Failure> {
    let runs = Runs::find(state, printer).await?;
    let mut runs: Vec<&Report> = runs.all().iter().collect();
    runs.sort_unstable_by_key(|run| run.started_ms);
    match output {
        Output::Json => {
            let runs = runs.iter().map(|run| of(run)).collect();
            // Texts and numbers always have a form in JSON.
            printer.line(serde_json::to_string(&RunsReport { version: 1, runs }).unwrap_or_default());
        }
        Output::Text => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            for line in aligned(&rows(&runs, now)) {
                if !printer.line(line) {
                    break;
                }
            }
        }
    }
    Ok(ExitStatus::Success)
}

fn of(run: &Report) -> RunReport<'_> {
    RunReport {
        id: &run.run,
        pid: run.pid,
        started_ms: run.started_ms,
        project: &run.project,
        program: &run.program,
        state: state(run),
        terminal: run.screen.is_some_and(|screen| screen.terminal),
    }
}

fn state(run: &Report) -> &'static str {
    match run.screen {
        None => "foreground",
        Some(ScreenReport { attached: true, .. }) => "attached",
        Some(ScreenReport { attached: false, .. }) => "background",
    }
}

fn rows(runs: &[&Report], now: Duration) -> Vec<Vec<String>> {
    let head = ["RUN", "AGE", "STATE", "PROGRAM", "PROJECT"].map(str::to_owned).to_vec();
    let row = |run: &&Report| {
        let age = now.saturating_sub(Duration::from_millis(run.started_ms));
        [
            sanitize_name(&run.run),
            age_text(age),
            state(run).to_owned(),
            sanitize_name(&run.program),
            sanitize_name(&run.project),
        ]
        .to_vec()
    };
    std::iter::once(head).chain(runs.iter().map(row)).collect()
}

/// In the largest unit that it has one of.
pub(super) fn age_text(age: Duration) -> String {
    match age.as_secs() {
        seconds @ ..60 => format!("{seconds}s"),
        seconds @ ..3600 => format!("{}m", seconds / 60),
        seconds @ ..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_one_line_whatever_it_is_called() {
        let run = Report {
            run: "aa01".to_owned(),
            pid: 7,
            project: "/srv/a\u{1b}[2J\nb".to_owned(),
            program: "x\u{202e}\ry".to_owned(),
            shield: None,
            until_ms: None,
            policy: None,
            started_ms: 1000,
            screen: Some(ScreenReport { terminal: true, attached: false }),
            questions: Vec::new(),
        };
        let rows = rows(&[&run], Duration::from_secs(3700));
        assert_eq!(rows[1], ["aa01", "1h", "background", r"x\u{202e}\ry", r"/srv/a\u{1b}[2J\nb"]);
        for (seconds, text) in [(0, "0s"), (59, "59s"), (60, "1m"), (86_399, "23h"), (86_400, "1d")] {
            assert_eq!(age_text(Duration::from_secs(seconds)), text);
        }
    }
}
