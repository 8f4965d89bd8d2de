//! The copy of the work tree that a task works on: what an earlier run left in it, and what becomes
//! of it at the end.

use std::fmt;
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};

use sandbox::workspace::{
    Applied, ApplyOptions, Change, GitChanges, Protection, WorkspaceCopy, WorkspaceError,
};
use sandbox::{Mount, Sandbox, SandboxConfig, SandboxError};
use serde::Serialize;

use crate::change_report::{ChangeReport, line, reports};
use crate::config::WorkspaceMode;
use crate::failure::Failure;
use crate::git_report::{coming, report_staying};
use crate::printer::{Printer, sanitize_name};
use crate::settings::TaskSettings;

/// Held-back changes that are listed, on stderr and for programs; all are counted, and `sandbox
/// diff` has all.
const LISTED: usize = 100;
/// What to do with changes that wait.
const COMMANDS: &str =
    "`sandbox diff` shows them, `sandbox apply` applies them, `sandbox discard` throws them away";

/// The copy that a run works on.
#[derive(Debug)]
pub(crate) struct CopyOfRun<'a> {
    dir: PathBuf,
    mode: WorkspaceMode,
    protection: &'a Protection,
    printer: Printer,
}

/// What is done with what an earlier run left, before the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Nothing, or the run goes on with it.
    Continue,
    Apply,
    Discard,
}

/// What became of the changes of a run.
#[derive(Debug, Serialize)]
pub(crate) struct WorkspaceReport {
    mode: &'static str,
    /// Paths that were applied.
    applied: usize,
    /// Paths that wait in the copy.
    pending: usize,
    /// The first [`LISTED`] of those that are held back.
    held_back: Vec<ChangeReport>,
    /// What came of what the task did in repositories, and what did not: the first [`LISTED`] of
    /// each.
    git: GitChanges,
    /// Why nothing was applied.
    error: Option<String>,
}

/// What is in a copy. A repository counts as one path.
#[derive(Debug, Default)]
struct Waiting {
    changes: Vec<Change>,
    git: GitChanges,
}

impl Waiting {
    fn in_copy(copy: &WorkspaceCopy, protection: &Protection) -> Result<Self, WorkspaceError> {
        let (changes, git) = copy.waiting(protection)?;
        Ok(Self { changes, git: git? })
    }

    fn count(&self) -> usize {
        self.changes.len() + self.git.repositories.len()
    }

    /// Those that wait for more than an apply.
    fn held_back(&self) -> usize {
        let repositories = self.git.repositories.iter().filter(|repository| repository.waits);
        held(&self.changes).len() + repositories.count()
    }
}

/// What waits in the copy of a work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CopySummary {
    /// Whether a run works with it just now.
    pub(crate) in_use: bool,
    /// Changed paths.
    pub(crate) pending: usize,
    /// Those among them that are held back.
    pub(crate) held_back: usize,
    /// Why that cannot be determined.
    pub(crate) error: Option<String>,
}

impl CopySummary {
    /// Of the copy that is kept in `dir`.
    pub(crate) fn of(dir: &Path, protection: &Protection) -> Self {
        let waiting = || -> Result<Option<Waiting>, WorkspaceError> {
            if WorkspaceCopy::is_in_use(dir)? {
                return Ok(None);
            }
            let copy = WorkspaceCopy::open(dir)?;
            let waiting = copy.map(|copy| Waiting::in_copy(&copy, protection)).transpose()?;
            Ok(Some(waiting.unwrap_or_default()))
        };
        match waiting() {
            Ok(None) => Self { in_use: true, ..Self::default() },
            Ok(Some(waiting)) => {
                Self { pending: waiting.count(), held_back: waiting.held_back(), ..Self::default() }
            }
            Err(error) => Self { error: Some(error.to_string()), ..Self::default() },
        }
    }
}

impl fmt::Display for CopySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { error: Some(error), .. } => write!(f, "Unreadable: {error}"),
            Self { in_use: true, .. } => f.write_str("In use by a run"),
            Self { pending: 0, .. } => f.write_str("None"),
            Self { pending, held_back: 0, .. } => write!(f, "{}, see `sandbox diff`", paths(*pending)),
            Self { pending, held_back, .. } => {
                write!(f, "{}, {held_back} held back, see `sandbox diff`", paths(*pending))
            }
        }
    }
}

impl<'a> CopyOfRun<'a> {
    /// `None` where the task works on the work tree itself.
    pub(crate) fn of(settings: &'a TaskSettings, printer: Printer) -> Option<Self> {
        let dir = settings.mounts.iter().find_map(Mount::copy_dir)?;
        Some(Self {
            dir: dir.to_owned(),
            mode: settings.workspace,
            protection: &settings.protection,
            printer,
        })
    }

    /// Looks at what an earlier run left. Undecided changes are never applied with those of the
    /// next run, unless the user says so.
    pub(crate) fn look(&self) -> Result<Pending, Failure> {
        let Some(copy) = self.opened()? else {
            return Ok(Pending::Continue);
        };
        if self.mode == WorkspaceMode::Copy {
            self.printer
                .message("this run goes on with the copy of the last one; `sandbox discard` throws it away");
            return Ok(Pending::Continue);
        }
        let waiting = Waiting::in_copy(&copy, self.protection)?;
        if waiting.count() == waiting.held_back() {
            if waiting.count() > 0 {
                self.printer.note(format_args!(
                    "the task sees what earlier runs left: {}; {COMMANDS}",
                    held_back(waiting.count())
                ));
            }
            return Ok(Pending::Continue);
        }
        let found = format!(
            "an earlier run left {} in the copy of the work tree, which were not applied",
            paths(waiting.count())
        );
        if !self.printer.can_ask() {
            return Err(Failure::new(found).with_hint(COMMANDS));
        }
        self.ask(&found)
    }

    fn ask(&self, found: &str) -> Result<Pending, Failure> {
        self.printer.warning(format_args!("{found}; `sandbox diff` shows them"));
        loop {
            self.printer
                .message("apply them now (a), go on with them (c), throw them away (d), or quit (q)?");
            let mut answer = String::new();
            let read = io::stdin().lock().read_line(&mut answer);
            let read = read.map_err(Failure::doing("read the answer from stdin"))?;
            match answer.trim() {
                "a" | "apply" => return Ok(Pending::Apply),
                "c" | "continue" => return Ok(Pending::Continue),
                "d" | "discard" => return Ok(Pending::Discard),
                "q" | "quit" => return Err(Failure::new(found).with_hint(COMMANDS)),
                _ if read == 0 => return Err(Failure::new(found).with_hint(COMMANDS)),
                _ => {}
            }
        }
    }

    /// Does what was decided; to be called when nothing of an earlier run is left on the engine.
    pub(crate) fn settle(&self, pending: Pending) -> Result<(), Failure> {
        if pending == Pending::Continue {
            return Ok(());
        }
        let Some(copy) = self.opened()? else {
            return Ok(());
        };
        match pending {
            Pending::Apply => self.report(&copy.apply(&self.options()).map_err(explained)?),
            Pending::Discard => copy.discard()?,
            Pending::Continue => {}
        }
        Ok(())
    }

    /// What becomes of the copy when the run is over. `is_over`: its container is gone, and the
    /// sandbox did not fail.
    pub(crate) fn finish(&self, is_over: bool) -> WorkspaceReport {
        let mut report = WorkspaceReport::new(self.mode);
        // The run that this one could not begin beside decides about its changes, and the reason is
        // reported as an error already.
        if !is_over && WorkspaceCopy::is_in_use(&self.dir).unwrap_or_default() {
            self.printer.message("the copy belongs to the run that uses it: nothing in it was changed");
            return report;
        }
        if let Err(failure) = self.finish_into(is_over, &mut report) {
            report.error = Some(failure.to_string());
            if self.mode == WorkspaceMode::Auto && is_over {
                self.printer.failure(&failure);
            } else {
                self.printer.warning(failure);
            }
        }
        report
    }

    fn finish_into(&self, is_over: bool, report: &mut WorkspaceReport) -> Result<(), Failure> {
        let Some(copy) = self.opened()? else {
            return Ok(());
        };
        if self.mode == WorkspaceMode::Auto && is_over {
            let applied = match copy.apply(&self.options()) {
                Ok(applied) => applied,
                Err(error) => {
                    let copy = self.opened()?;
                    let waiting = copy.map(|copy| Waiting::in_copy(&copy, self.protection)).transpose();
                    report.pending = waiting.ok().flatten().map_or(0, |waiting| waiting.count());
                    return Err(explained(error));
                }
            };
            self.report(&applied);
            report.applied = applied.applied.len();
            report.pending = applied.held_back.len() + applied.waiting.len();
            report.held_back = listed(&applied.held_back);
            report.git = cut(applied.git);
            return Ok(());
        }
        let waiting = Waiting::in_copy(&copy, self.protection)?;
        if waiting.count() == 0 && waiting.git.is_empty() {
            // Otherwise a task may still be at work in it.
            return if is_over { Ok(copy.discard()?) } else { Ok(()) };
        }
        report.pending = waiting.count();
        report.held_back = listed(&held(&waiting.changes));
        self.report_waiting(waiting.count());
        report.git = cut(waiting.git);
        Ok(())
    }

    fn report_waiting(&self, count: usize) {
        let printer = self.printer;
        match self.mode {
            WorkspaceMode::Auto => {
                printer.warning(format_args!(
                    "the run failed, so {} were not applied and stay in the copy",
                    paths(count)
                ));
                printer.hint(COMMANDS);
            }
            _ => printer.message(format_args!(
                "{} in the copy: sandbox diff, sandbox apply, sandbox discard",
                if count == 1 { "1 path differs".to_owned() } else { format!("{count} paths differ") }
            )),
        }
    }

    /// Says what is in the work tree now, and what is not.
    fn report(&self, applied: &Applied) {
        let printer = self.printer;
        match applied.applied.len() {
            0 => {}
            1 => printer.message("1 path changed in the work tree"),
            count => printer.message(format_args!("{count} paths changed in the work tree")),
        }
        let lines = coming(&applied.git);
        lines.iter().take(LISTED).for_each(|line| printer.message(line));
        if lines.len() > LISTED {
            printer.message(format_args!("… and {} more of git's", lines.len() - LISTED));
        }
        report_held_back(applied, printer);
        report_staying(&applied.git, printer);
    }

    fn options(&self) -> ApplyOptions {
        ApplyOptions { protection: self.protection.clone(), ..ApplyOptions::default() }
    }

    fn opened(&self) -> Result<Option<WorkspaceCopy>, Failure> {
        opened(&self.dir)
    }
}

impl WorkspaceReport {
    /// Of a run that changed nothing in a copy.
    pub(crate) fn new(mode: WorkspaceMode) -> Self {
        let (held_back, git) = (Vec::new(), GitChanges::default());
        Self { mode: mode.as_str(), applied: 0, pending: 0, held_back, git, error: None }
    }

    /// Adds what came of what the task did in repositories while it worked on the tree itself.
    pub(crate) fn add_imported(&mut self, git: &GitChanges) {
        self.git = std::mem::take(&mut self.git).and(cut(git.clone()));
    }

    /// Whether changes of the task should be in the work tree, and are not.
    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }
}

/// The copy in `dir` that no run works with.
pub(crate) fn opened(dir: &Path) -> Result<Option<WorkspaceCopy>, Failure> {
    // The hint for it is that of the sandbox's error.
    let known = |error: WorkspaceError| Failure::from(SandboxError::from(error));
    match WorkspaceCopy::open(dir).map_err(known)? {
        Some(copy) if WorkspaceCopy::is_in_use(dir).map_err(known)? => {
            let tree = copy.tree().to_owned();
            Err(known(WorkspaceError::Busy { tree }))
        }
        copy => Ok(copy),
    }
}

/// The same, once no container of an ended run can still be at work in it: one that was killed
/// together with its sandbox goes first.
pub(crate) async fn settled(
    dir: &Path,
    sandbox: impl FnOnce() -> Result<SandboxConfig, Failure>,
) -> Result<Option<WorkspaceCopy>, Failure> {
    let Some(copy) = opened(dir)? else {
        return Ok(None);
    };
    if copy.was_interrupted() {
        let swept = Sandbox::start(sandbox()?).await?.sweep_at_start().await?;
        if !swept.failed.is_empty() {
            return Err(Failure::new(
                "the run that worked on this copy was killed, and its container cannot be removed",
            )
            .with_hint("`sandbox status` lists what is there"));
        }
    }
    Ok(Some(copy))
}

/// What can be done about an apply that was refused.
pub(crate) fn explained(error: WorkspaceError) -> Failure {
    let hint = match error {
        WorkspaceError::Conflict { .. } => Some(
            "`sandbox diff` marks them with !; `sandbox apply --force` lets the task's version win, `sandbox discard` this machine's",
        ),
        WorkspaceError::Repository { .. } => Some(
            "the copy keeps everything: `sandbox diff --patch` shows the files, `sandbox discard` throws all of it away",
        ),
        _ => None,
    };
    match hint {
        Some(hint) => Failure::from(error).with_hint(hint),
        None => Failure::from(error),
    }
}

/// Lists what was not applied, and says how to let it through.
pub(crate) fn report_held_back(applied: &Applied, printer: Printer) {
    let held = &applied.held_back;
    for repository in &applied.waiting {
        let path = sanitize_name(&repository.path.display().to_string());
        printer.warning(format_args!("what git did in `{path}` is held back"));
        repository.report.hints.iter().for_each(|hint| printer.hint(sanitize_name(hint)));
    }
    if held.is_empty() {
        if !applied.waiting.is_empty() {
            printer.hint("`sandbox diff` shows it, `sandbox apply --include-protected` takes it, `sandbox discard` throws it away");
        }
        return;
    }
    let is_special = |change: &Change| change.held_back == Some(sandbox::workspace::HeldBack::Special);
    printer.warning(format_args!("{}:", held_back(held.len())));
    for change in held.iter().take(LISTED) {
        printer.message(line(change));
    }
    if held.len() > LISTED {
        printer.message(format_args!("… and {} more", held.len() - LISTED));
    }
    if held.iter().any(|change| change.held_back == Some(sandbox::workspace::HeldBack::Repository)) {
        printer.hint("what git changes in one step is not split, and a repository that the task made is made anew, of its commits alone; `sandbox apply --include-protected` does both");
    }
    if held.iter().any(|change| !is_special(change)) {
        printer.hint("`sandbox diff --patch` shows them, `sandbox apply --include-protected` applies them, `sandbox discard` throws them away");
    }
    if held.iter().any(is_special) {
        printer.hint("devices, pipes and sockets are never applied");
    }
}

fn held(changes: &[Change]) -> Vec<Change> {
    let held = changes.iter().filter(|change| change.held_back.is_some());
    held.cloned().collect()
}

fn listed(held: &[Change]) -> Vec<ChangeReport> {
    reports(held.get(..LISTED).unwrap_or(held))
}

/// The first [`LISTED`] of each.
fn cut(mut git: GitChanges) -> GitChanges {
    git.left.truncate(LISTED);
    git.settings.truncate(LISTED);
    for repository in &mut git.repositories {
        let report = &mut repository.report;
        report.more_left |= report.left.len() > LISTED;
        report.left.truncate(LISTED);
        report.settings.truncate(LISTED);
        report.refs.truncate(LISTED);
    }
    git
}

fn paths(count: usize) -> String {
    if count == 1 { "1 changed path".to_owned() } else { format!("{count} changed paths") }
}

fn held_back(count: usize) -> String {
    if count == 1 { "1 change is held back".to_owned() } else { format!("{count} changes are held back") }
}
