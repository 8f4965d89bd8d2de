//! `ps`, `wait` and `rm`: the runs of this user.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::task::JoinSet;

use crate::args::{Output, PsArgs, RunsArg, WaitArgs};
use crate::config::Places;
use crate::control::{Report, Runs, ScreenReport};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::printer::{Printer, sanitize_name};
use crate::run_folder;
use crate::run_record::RunRecord;
use crate::table::aligned;

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct RunsReport {
    version: u32,
    runs: Vec<RunReport>,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct RunReport {
    pub(super) id: String,
    /// `None` once the run has ended.
    pid: Option<u32>,
    pub(super) started_ms: u64,
    /// The project's folder, or the name of its logs where the run did not note it.
    project: String,
    pub(super) program: String,
    state: &'static str,
    terminal: bool,
    pub(super) exit_code: Option<u8>,
    pub(super) duration_ms: Option<u64>,
    /// The outcome of an agent.
    pub(super) outcome: Option<String>,
    session_id: Option<String>,
    /// US dollars, at list prices.
    cost_usd: Option<f64>,
}

/// Prints them, the newest last.
pub(crate) async fn ps(args: &PsArgs, places: &Places, printer: Printer) -> Result<ExitStatus, Failure> {
    let running = Runs::find(&places.state, printer).await?;
    let mut runs: Vec<RunReport> = running.all().iter().map(RunReport::of_running).collect();
    if args.all {
        let is_known = |id: &str| running.all().iter().any(|run| run.run == id);
        let folders = run_folder::of_all_projects(&places.all_logs());
        let others = folders.iter().map(|folder| RunReport::of_folder(folder));
        runs.extend(others.filter(|run| !is_known(&run.id)));
    }
    runs.sort_by_key(|run| run.started_ms);
    match args.output {
        Output::Json => {
            // Serializing texts and numbers cannot fail.
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

/// Waits until the runs have ended, or one of them; prints the exit code of each. Ours is that of
/// the first that failed.
pub(crate) async fn wait(args: &WaitArgs, places: &Places, printer: Printer) -> Result<ExitStatus, Failure> {
    let mut interrupts = Interrupts::listen().map_err(Failure::doing("listen for signals"))?;
    let mut waiting = JoinSet::new();
    for folder in named(&args.runs, places)? {
        waiting.spawn_blocking(move || {
            run_folder::wait_for_end(&folder);
            folder
        });
    }
    let mut status = ExitStatus::Success;
    loop {
        let folder = tokio::select! {
            interrupt = interrupts.next() => return Ok(ExitStatus::Interrupted(interrupt)),
            ended = waiting.join_next() => match ended {
                Some(ended) => ended.map_err(Failure::doing("wait for the end of a run"))?,
                None => return Ok(status),
            },
        };
        let run = RunReport::of_folder(&folder);
        let code = run.exit_code.map_or(ExitStatus::Infrastructure, ExitStatus::Command);
        let end = run.exit_code.map_or_else(|| run.state.to_owned(), |code| code.to_string());
        printer.line(format_args!("{}  {end}", sanitize_name(&run.id)));
        if status.code() == 0 {
            status = code;
        }
        if args.any {
            return Ok(status);
        }
    }
}

/// Removes the folders of runs that have ended.
pub(crate) fn rm(args: &RunsArg, places: &Places, printer: Printer) -> Result<ExitStatus, Failure> {
    let folders = named(args, places)?;
    for folder in &folders {
        if run_folder::is_running(folder) {
            let run = RunReport::of_folder(folder).id;
            return Err(Failure::usage(format!("run {run} has not ended, so nothing was removed"))
                .with_hint(format!("`sandbox stop {run}` ends it")));
        }
    }
    for folder in folders {
        let doing = || format!("remove `{}`", folder.display());
        fs::remove_dir_all(&folder).map_err(Failure::doing(doing()))?;
        printer.line(sanitize_name(run_folder::instance(&run_folder::id_of(&folder))));
    }
    Ok(ExitStatus::Success)
}

/// The folders of the runs that are named, each once.
fn named(args: &RunsArg, places: &Places) -> Result<Vec<PathBuf>, Failure> {
    let logs = places.all_logs();
    let mut folders = Vec::new();
    for named in &args.runs {
        let folder = run_folder::find_in_all(&logs, named)?;
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    Ok(folders)
}

/// The cost that an agent reported, unless no amount of money looks like it.
pub(in crate::commands) fn believable(cost: f64) -> Option<f64> {
    (0.005..1e6).contains(&cost).then_some(cost)
}

impl RunReport {
    fn of_running(run: &Report) -> Self {
        Self {
            id: run.run.clone(),
            pid: Some(run.pid),
            started_ms: run.started_ms,
            project: run.project.clone(),
            program: run.program.clone(),
            state: match run.screen {
                None => "foreground",
                Some(ScreenReport { attached: true, .. }) => "attached",
                Some(ScreenReport { attached: false, .. }) => "background",
            },
            terminal: run.screen.is_some_and(|screen| screen.terminal),
            ..Self::default()
        }
    }

    /// A run that cannot be asked: it has ended, or its program has not started. Image builds and
    /// verifications have no program.
    pub(super) fn of_folder(folder: &Path) -> Self {
        let id = run_folder::id_of(folder);
        let began = run_folder::began(&id).map(|began| began.unix_timestamp_nanos() / 1_000_000);
        let record = RunRecord::read(folder);
        let state = match (run_folder::is_running(folder), &record) {
            (true, None) => "preparing",
            (true, Some(record)) if record.end.is_none() => "running",
            (true, Some(_)) => "ending",
            (false, None) => "no program",
            (false, Some(record)) if record.end.is_none() => "killed",
            (false, Some(_)) => "ended",
        };
        let logs = folder.parent().map(run_folder::id_of).unwrap_or_default().into_owned();
        let (project, program, end, session) = match record {
            None => (String::new(), String::new(), None, None),
            Some(record) => (record.project, record.command, record.end, record.session),
        };
        let (outcome, session_id, cost_usd) =
            session.map(|session| (session.outcome, session.id, session.cost)).unwrap_or_default();
        Self {
            id: run_folder::instance(&id).to_owned(),
            started_ms: began.and_then(|began| u64::try_from(began).ok()).unwrap_or_default(),
            project: if project.is_empty() { logs } else { project },
            program,
            state,
            exit_code: end.as_ref().map(|end| end.exit_code),
            duration_ms: end.map(|end| end.duration_ms),
            outcome,
            session_id,
            cost_usd,
            ..Self::default()
        }
    }

    /// An agent reports it, and can report anything.
    pub(super) fn cost(&self) -> Option<f64> {
        self.cost_usd.and_then(believable)
    }

    pub(super) fn cost_text(&self) -> Option<String> {
        self.cost().map(|cost| format!("${cost:.2}"))
    }

    /// For people: the outcome is more useful than the fact that it ended.
    pub(super) fn state_text(&self) -> String {
        match (self.exit_code, &self.outcome) {
            (None, _) => self.state.to_owned(),
            (Some(code), None) => format!("exit {code}"),
            (Some(code), Some(outcome)) => format!("exit {code}, {}", sanitize_name(outcome)),
        }
    }
}

fn rows(runs: &[RunReport], now: Duration) -> Vec<Vec<String>> {
    let head = ["RUN", "AGE", "STATE", "PROGRAM", "PROJECT"].map(str::to_owned).to_vec();
    let row = |run: &RunReport| {
        let age = now.saturating_sub(Duration::from_millis(run.started_ms));
        let cost = run.cost_text().map(|cost| format!(", {cost}"));
        [
            sanitize_name(&run.id),
            age_text(age),
            run.state_text() + &cost.unwrap_or_default(),
            sanitize_name(&run.program),
            sanitize_name(&run.project),
        ]
        .to_vec()
    };
    std::iter::once(head).chain(runs.iter().map(row)).collect()
}

/// In the largest unit of which it has at least one.
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
    fn a_run_is_one_line_with_any_name() {
        let run = Report {
            run: "aa01".to_owned(),
            pid: 7,
            project: "/srv/a\u{1b}[2J\nb".to_owned(),
            program: "x\u{202e}\ry".to_owned(),
            shield: None,
            until_ms: None,
            policy: None,
            policy_source: None,
            started_ms: 1000,
            screen: Some(ScreenReport { terminal: true, attached: false }),
            questions: Vec::new(),
            tools: Vec::new(),
            cost: None,
        };
        let rows = rows(&[RunReport::of_running(&run)], Duration::from_secs(3700));
        assert_eq!(rows[1], ["aa01", "1h", "background", r"x\u{202e}\ry", r"/srv/a\u{1b}[2J\nb"]);
        for (seconds, text) in [(0, "0s"), (59, "59s"), (60, "1m"), (86_399, "23h"), (86_400, "1d")] {
            assert_eq!(age_text(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn ended_run_is_read_from_its_folder() {
        let logs = tempfile::tempdir().unwrap();
        let folder = logs.path().join("p-1/19700101T000001.500000-aa01");
        fs::create_dir_all(&folder).unwrap();
        let text = |folder: &Path| rows(&[RunReport::of_folder(folder)], Duration::from_secs(3))[1].join("|");
        assert_eq!(text(&folder), "aa01|1s|no program||p-1");
        let record = RunRecord::begin(Path::new("/srv/p"), &["agent".to_owned(), "claude".to_owned()]);
        record.write(&folder).unwrap();
        assert_eq!(text(&folder), "aa01|1s|killed|agent claude|/srv/p");
        let mut record = record.with_session("claude", "/s".into(), "c").finished(1);
        let session = record.session.as_mut().unwrap();
        (session.outcome, session.cost) = (Some("timeout".to_owned()), Some(0.314));
        record.write(&folder).unwrap();
        assert_eq!(text(&folder), "aa01|1s|exit 1, timeout, $0.31|agent claude|/srv/p");
        let lock = fs::File::create(folder.join("running")).unwrap();
        lock.lock().unwrap();
        assert_eq!(RunReport::of_folder(&folder).state, "ending");
    }
}
