//! `diff`: shows a task's changes in its copy of the work tree.

use sandbox::SandboxConfig;
use sandbox::workspace::{Change, ChangeKind, EntryKind, GitChanges, Withheld, WorkspaceCopy};
use serde::Serialize;
use similar::TextDiff;

use crate::args::{DiffArgs, Output};
use crate::change_report::{ChangeReport, hint, line, reports};
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::git_report::{coming, staying};
use crate::printer::{Printer, sanitize, sanitize_name};
use crate::settings::TrustedProject;
use crate::workspace_copy::explained;

use super::result_copy::with_result;

/// Larger files are not shown as a patch.
const LARGEST_TEXT: u64 = 1024 * 1024;

/// Prints the changes.
pub(crate) async fn diff(
    args: &DiffArgs,
    project: &TrustedProject,
    sandbox: impl FnOnce() -> Result<SandboxConfig, Failure>,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    if args.result.result.is_some() {
        let print = |copy: WorkspaceCopy| {
            let status = printed(args, &copy, project, printer)?;
            copy.discard()?;
            Ok(status)
        };
        return with_result(&args.result, project, sandbox, environment, printer, print).await;
    }
    let Some(copy) = WorkspaceCopy::open(project.copy_dir())? else {
        match args.output {
            Output::Json => drop(printer.line(json(&[], &GitChanges::default()))),
            Output::Text => printer.message(NO_COPY),
        }
        return Ok(ExitStatus::Success);
    };
    printed(args, &copy, project, printer)
}

fn printed(
    args: &DiffArgs,
    copy: &WorkspaceCopy,
    project: &TrustedProject,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let protection = project.protection(false);
    let (changes, git) = copy.waiting(&protection)?;
    if args.output == Output::Json {
        printer.line(json(&changes, &git.map_err(explained)?));
        return Ok(ExitStatus::Success);
    }
    for change in &changes {
        let shown = if args.patch { described(copy, change, LARGEST_TEXT)? } else { line(change) };
        if !printer.line(shown) {
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

/// A change with its reason for being withheld, and the patch of a text file of at most `largest` bytes.
pub(super) fn described(copy: &WorkspaceCopy, change: &Change, largest: u64) -> Result<String, Failure> {
    Ok(with_patch(line(change), change.withheld, patch(copy, change, largest)?))
}

/// A patch states neither that a change is withheld nor that the host changed the same path.
fn with_patch(line: String, withheld: Option<Withheld>, patch: Option<String>) -> String {
    let hint = withheld.map(|withheld| format!("   hint: {}", hint(withheld)));
    [Some(line), hint, patch].into_iter().flatten().collect::<Vec<_>>().join("\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_of_a_withheld_file_follows_its_path_reason_and_hint() {
        let line = || "A  .envrc (withheld: protected)".to_owned();
        let patch = || Some("--- /dev/null\n+++ b/.envrc".to_owned());
        let shown = with_patch(line(), Some(Withheld::Protected), patch());
        let hint =
            "   hint: host tools execute or obey it; review it, then `sandbox apply --include-protected`";
        assert_eq!(shown, format!("{}\n{hint}\n--- /dev/null\n+++ b/.envrc", line()));
        assert_eq!(with_patch(line(), Some(Withheld::Protected), None), format!("{}\n{hint}", line()));
        assert_eq!(with_patch("M  a".to_owned(), None, patch()), "M  a\n--- /dev/null\n+++ b/.envrc");
        assert_eq!(with_patch("M  a".to_owned(), None, None), "M  a");
    }
}
