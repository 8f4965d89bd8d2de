//! The copy of the work tree that a task works on: changes of earlier runs in it, and its end.

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

/// The maximum number of withheld changes that are listed, in text and JSON; all are counted, and
/// `sandbox diff` shows all.
const LISTED: usize = 100;
/// The hint for pending changes.
const COMMANDS: &str =
    "`sandbox diff` shows them, `sandbox apply` applies them, `sandbox discard` discards them";

/// The copy that a run works on.
#[derive(Debug)]
pub(crate) struct CopyOfRun<'a> {
    dir: PathBuf,
    mode: WorkspaceMode,
    protection: &'a Protection,
    printer: Printer,
}

/// The treatment of changes of an earlier run before the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Nothing, or the run continues with them.
    Continue,
    Apply,
    Discard,
}

/// The result of a run's changes.
#[derive(Debug, Serialize)]
pub(crate) struct WorkspaceReport {
    mode: &'static str,
    /// Paths that were applied.
    applied: usize,
    /// Paths that remain in the copy.
    pending: usize,
    /// The first [`LISTED`] withheld changes.
    withheld: Vec<ChangeReport>,
    /// The imported changes in repositories, and those that were not imported: the first [`LISTED`]
    /// of each.
    git: GitChanges,
    /// Why nothing was applied.
    error: Option<String>,
}

/// The pending changes in a copy. A repository counts as one path.
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

    /// The number of withheld changes.
    fn withheld(&self) -> usize {
        let repositories = self.git.repositories.iter().filter(|repository| repository.waits);
        held(&self.changes).len() + repositories.count()
    }
}

/// A summary of the pending changes in the copy of a work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct CopySummary {
    /// Whether a run uses it.
    pub(crate) in_use: bool,
    /// Changed paths.
    pub(crate) pending: usize,
    /// The number of withheld paths among them.
    pub(crate) withheld: usize,
    /// Why that cannot be determined.
    pub(crate) error: Option<String>,
}

impl CopySummary {
    /// The summary of the copy in `dir`.
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
                Self { pending: waiting.count(), withheld: waiting.withheld(), ..Self::default() }
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
            Self { pending, withheld: 0, .. } => write!(f, "{}, see `sandbox diff`", paths(*pending)),
            Self { pending, withheld, .. } => {
                write!(f, "{}, {withheld} withheld, see `sandbox diff`", paths(*pending))
            }
        }
    }
}

impl<'a> CopyOfRun<'a> {
    /// `None` if the task works on the work tree itself, or its caller reads the copy.
    pub(crate) fn of(settings: &'a TaskSettings, printer: Printer) -> Option<Self> {
        let dir = settings.mounts.iter().find_map(Mount::copy_dir).filter(|_| !settings.is_bundle)?;
        Some(Self {
            dir: dir.to_owned(),
            mode: settings.workspace,
            protection: &settings.protection,
            printer,
        })
    }

    /// Checks for changes of an earlier run. Undecided changes are never applied together with
    /// those of the next run, unless the user decides so.
    pub(crate) fn look(&self) -> Result<Pending, Failure> {
        let Some(copy) = self.opened()? else {
            return Ok(Pending::Continue);
        };
        if self.mode == WorkspaceMode::Copy {
            self.printer
                .message("this run continues with the copy of the last one; `sandbox discard` discards it");
            return Ok(Pending::Continue);
        }
        let waiting = Waiting::in_copy(&copy, self.protection)?;
        if waiting.count() == waiting.withheld() {
            if waiting.count() > 0 {
                self.printer.note(format_args!(
                    "the task sees changes of earlier runs: {}; {COMMANDS}",
                    withheld_text(waiting.count())
                ));
            }
            return Ok(Pending::Continue);
        }
        let found = format!(
            "the copy of the work tree contains {} from an earlier run, not yet applied",
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
                .message("apply them now (a), continue with them (c), discard them (d), or quit (q)?");
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

    /// Carries out the decision; call it when nothing of an earlier run is left on the engine.
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

    /// Whether another run uses the copy, so that this one did not begin: see [`finish`](Self::finish).
    pub(crate) fn is_of_another(&self, is_over: bool) -> bool {
        !is_over && WorkspaceCopy::is_in_use(&self.dir).unwrap_or_default()
    }

    /// Applies or keeps the changes at the end of the run. `is_over`: its container is gone, and
    /// the sandbox did not fail.
    pub(crate) fn finish(&self, is_over: bool) -> WorkspaceReport {
        let mut report = WorkspaceReport::new(self.mode);
        // Another run uses the copy and decides about its changes; this was already reported as an
        // error.
        if self.is_of_another(is_over) {
            self.printer.message("another run uses the copy: nothing in it was changed");
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
            report.pending = applied.withheld.len() + applied.waiting.len();
            report.withheld = listed(&applied.withheld);
            report.git = cut(applied.git);
            return Ok(());
        }
        let waiting = Waiting::in_copy(&copy, self.protection)?;
        if waiting.count() == 0 && waiting.git.is_empty() {
            // Otherwise a task may still be working in it.
            return if is_over { Ok(copy.discard()?) } else { Ok(()) };
        }
        report.pending = waiting.count();
        report.withheld = listed(&held(&waiting.changes));
        self.report_waiting(waiting.count());
        report.git = cut(waiting.git);
        Ok(())
    }

    fn report_waiting(&self, count: usize) {
        let printer = self.printer;
        match self.mode {
            WorkspaceMode::Auto => {
                printer.warning(format_args!(
                    "the run failed; its changes were not applied and remain in the copy: {}",
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

    /// Reports the applied changes, and the others.
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
            printer.message(format_args!("… and {} more git changes", lines.len() - LISTED));
        }
        report_withheld(applied, printer);
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
    /// The report of a run that changed nothing in a copy.
    pub(crate) fn new(mode: WorkspaceMode) -> Self {
        let (withheld, git) = (Vec::new(), GitChanges::default());
        Self { mode: mode.as_str(), applied: 0, pending: 0, withheld, git, error: None }
    }

    /// Adds the imported changes in repositories of a task that worked on the tree itself.
    pub(crate) fn add_imported(&mut self, git: &GitChanges) {
        self.git = std::mem::take(&mut self.git).and(cut(git.clone()));
    }

    /// Whether applying the task's changes failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some()
    }
}

/// The copy in `dir`, unless a run uses it.
pub(crate) fn opened(dir: &Path) -> Result<Option<WorkspaceCopy>, Failure> {
    // The sandbox's error provides the hint.
    let known = |error: WorkspaceError| Failure::from(SandboxError::from(error));
    match WorkspaceCopy::open(dir).map_err(known)? {
        Some(copy) if WorkspaceCopy::is_in_use(dir).map_err(known)? => {
            let tree = copy.tree().to_owned();
            Err(known(WorkspaceError::Busy { tree }))
        }
        copy => Ok(copy),
    }
}

/// The same, after containers of ended runs that may still be working in it were removed, such as
/// one whose sandbox was killed.
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
                "the run that used this copy was killed, and removing its container failed",
            )
            .with_hint("`sandbox status` lists the objects"));
        }
    }
    Ok(Some(copy))
}

/// The error of a refused apply, with a hint.
pub(crate) fn explained(error: WorkspaceError) -> Failure {
    let hint = match error {
        WorkspaceError::Conflict { .. } => Some(
            "`sandbox diff` marks them with !; `sandbox apply --force` keeps the task's version, `sandbox discard` the host's",
        ),
        WorkspaceError::Repository { .. } => Some(
            "the copy keeps all changes: `sandbox diff --patch` shows the files, `sandbox discard` discards them",
        ),
        _ => None,
    };
    match hint {
        Some(hint) => Failure::from(error).with_hint(hint),
        None => Failure::from(error),
    }
}

/// Lists the withheld changes, and how to apply them.
pub(crate) fn report_withheld(applied: &Applied, printer: Printer) {
    let held = &applied.withheld;
    for repository in &applied.waiting {
        let path = sanitize_name(&repository.path.display().to_string());
        printer.warning(format_args!("git changes in `{path}` are withheld"));
        repository.report.hints.iter().for_each(|hint| printer.hint(sanitize_name(hint)));
    }
    if held.is_empty() {
        if !applied.waiting.is_empty() {
            printer.hint("`sandbox diff` shows them, `sandbox apply --include-protected` applies them, `sandbox discard` discards them");
        }
        return;
    }
    let is_special = |change: &Change| change.withheld == Some(sandbox::workspace::Withheld::Special);
    printer.warning(format_args!("{}:", withheld_text(held.len())));
    for change in held.iter().take(LISTED) {
        printer.message(line(change));
    }
    if held.len() > LISTED {
        printer.message(format_args!("… and {} more", held.len() - LISTED));
    }
    if held.iter().any(|change| change.withheld == Some(sandbox::workspace::Withheld::Repository)) {
        printer.hint(
            "changes of one git operation are not split, and a new repository of the task is \
             recreated from its commits alone; `sandbox apply --include-protected` does both",
        );
    }
    if held.iter().any(|change| !is_special(change)) {
        printer.hint("`sandbox diff --patch` shows them, `sandbox apply --include-protected` applies them, `sandbox discard` discards them");
    }
    if held.iter().any(is_special) {
        printer.hint("devices, pipes and sockets are never applied");
    }
}

fn held(changes: &[Change]) -> Vec<Change> {
    let held = changes.iter().filter(|change| change.withheld.is_some());
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

fn withheld_text(count: usize) -> String {
    if count == 1 { "1 change is withheld".to_owned() } else { format!("{count} changes are withheld") }
}
