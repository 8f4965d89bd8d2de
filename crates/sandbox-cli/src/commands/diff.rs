//! `diff`: shows a task's changes in its copy of the work tree.

use sandbox::workspace::{Change, ChangeKind, EntryKind, GitChanges, WorkspaceCopy};
use serde::Serialize;
use similar::TextDiff;

use crate::args::{DiffArgs, Output};
use crate::change_report::{ChangeReport, line, reports};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::git_report::{coming, staying};
use crate::printer::{Printer, sanitize, sanitize_name};
use crate::settings::TrustedProject;
use crate::workspace_copy::explained;

/// Larger files are not shown as a patch.
const LARGEST_TEXT: u64 = 1024 * 1024;

/// Prints the changes.
pub(crate) fn diff(
    args: &DiffArgs,
    project: &TrustedProject,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let Some(copy) = WorkspaceCopy::open(project.copy_dir())? else {
        match args.output {
            Output::Json => drop(printer.line(json(&[], &GitChanges::default()))),
            Output::Text => printer.message(NO_COPY),
        }
        return Ok(ExitStatus::Success);
    };
    let protection = project.protection(false);
    let (changes, git) = copy.waiting(&protection)?;
    if args.output == Output::Json {
        printer.line(json(&changes, &git.map_err(explained)?));
        return Ok(ExitStatus::Success);
    }
    for change in &changes {
        let shown = if args.patch { patch(&copy, change, LARGEST_TEXT)? } else { None };
        if !printer.line(shown.unwrap_or_else(|| line(change))) {
            return Ok(ExitStatus::Success);
        }
    }
    // Files are shown even if a repository is unreadable.
    let git = git.map_err(explained)?;
    let stays = staying(&git).into_iter().map(|line| format!("-  {line}"));
    // Stops once stdout is closed.
    let _ = coming(&git).into_iter().chain(stays).all(|line| printer.line(line));
    Ok(ExitStatus::Success)
}

/// A change, with a patch of a text file of at most `largest` bytes.
pub(super) fn described(copy: &WorkspaceCopy, change: &Change, largest: u64) -> Result<String, Failure> {
    Ok(patch(copy, change, largest)?.unwrap_or_else(|| line(change)))
}

/// The message if there is no copy.
pub(super) const NO_COPY: &str = "no copy of this work tree; `sandbox run --workspace copy` creates one";

/// The change of a text file, in the format of `diff -u`; `None` if it is not text or too large.
fn patch(copy: &WorkspaceCopy, change: &Change, largest: u64) -> Result<Option<String>, Failure> {
    if change.entry != EntryKind::File {
        return Ok(None);
    }
    let (ours, theirs) = copy.versions(&change.path, largest + 1)?;
    let readable = |content: Option<Vec<u8>>| {
        let content = content.unwrap_or_default();
        let small = u64::try_from(content.len()).is_ok_and(|length| length <= largest);
        String::from_utf8(content).ok().filter(|text| small && !text.contains('\0'))
    };
    let (Some(ours), Some(theirs)) = (readable(ours), readable(theirs)) else {
        return Ok(None);
    };
    let path = sanitize_name(&change.path.display().to_string());
    let name = |side: &str, missing: bool| {
        if missing { "/dev/null".to_owned() } else { format!("{side}/{path}") }
    };
    let difference = TextDiff::from_lines(&theirs, &ours);
    let unified = difference
        .unified_diff()
        .header(&name("a", change.kind == ChangeKind::Added), &name("b", change.kind == ChangeKind::Removed))
        .to_string();
    Ok(Some(sanitize(unified.trim_end_matches('\n'))))
}

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct DiffReport<'a> {
    version: u32,
    changes: Vec<ChangeReport>,
    git: &'a GitChanges,
}

fn json(changes: &[Change], git: &GitChanges) -> String {
    let report = DiffReport { version: 2, changes: reports(changes), git };
    // Serializing texts and numbers cannot fail.
    serde_json::to_string(&report).unwrap_or_default()
}
