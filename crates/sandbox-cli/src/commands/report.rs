//! `report`: a run, or many, as an HTML page or as JSON.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::network::NetworkLog;
use sandbox::workspace::WorkspaceCopy;
use sandbox_files::Replacement;
use time::OffsetDateTime;

use crate::args::{Output, ReportArgs};
use crate::change_report::reports;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::run_folder;
use crate::run_record::RunRecord;
use crate::settings::Project;

use super::diff;

mod content;
mod overview;
mod overview_page;
mod page;

use content::{Report, ShownChange};
use overview::Overview;

/// The number of changes shown, and of those of git; `sandbox diff` shows all.
const MOST_CHANGES: usize = 200;
/// The maximum size of a text file whose changes are shown, in bytes.
const LARGEST_TEXT: u64 = 128 << 10;

/// Writes the page and prints its path, or prints the JSON.
pub(crate) fn report(args: ReportArgs, project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    let folder = run_folder::find(&project.logs(), args.run.as_deref())?;
    let is_json = args.output == Output::Json;
    let (folder, text) = if let Some(since) = args.since {
        let overview = overview(project, since, printer)?;
        let text = if is_json { content::json(&overview) } else { overview_page::page(&overview) };
        (project.logs(), text)
    } else {
        let report = of_run(project, &folder)?;
        let text = if is_json { content::json(&report) } else { page::page(&report) };
        (folder, text)
    };
    if is_json {
        printer.line(text);
        return Ok(ExitStatus::Success);
    }
    let written = match args.file {
        None => {
            let file = folder.join("report.html");
            let doing = format!("write `{}`", file.display());
            Replacement::private().write(&file, text.as_bytes()).map_err(Failure::doing(doing))?;
            file
        }
        Some(file) => write(project, file, &text)?,
    };
    printer.line(written.display());
    Ok(ExitStatus::Success)
}

/// The runs of the project that began within the time `since` before now.
fn overview(project: &Project, since: Duration, printer: Printer) -> Result<Overview, Failure> {
    let policy = project.read_allowlist(&project.allowlist_path())?.unwrap_or_default();
    let policy = project.within_outer(policy)?;
    let folders = run_folder::folders(&project.logs());
    let overview = Overview::of(&project.root, &folders, OffsetDateTime::now_utc() - since, &policy);
    overview.problems.iter().for_each(|problem| printer.warning(problem));
    Ok(overview)
}

fn of_run(project: &Project, folder: &Path) -> Result<Report, Failure> {
    let run = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let record = RunRecord::read(folder);
    let mut report = Report { run, project: project.root.display().to_string(), record, ..Report::default() };
    let policy = project.read_allowlist(&project.allowlist_path())?.unwrap_or_default();
    let policy = project.within_outer(policy)?;
    report.read_log(&NetworkLog::new(folder), &policy)?;
    report.read_session(&project.resolver)?;
    report.no_changes = not_in_copy(folder, report.record.as_ref());
    if let (None, Some(copy)) = (&report.no_changes, WorkspaceCopy::open(project.copy_dir())?) {
        let protection = project.protection(false);
        let (changes, git) = copy.waiting(&protection)?;
        for (change, facts) in changes.iter().zip(reports(&changes)).take(MOST_CHANGES) {
            let text = page::cut(&diff::described(&copy, change, LARGEST_TEXT)?);
            report.changes.push(ShownChange { facts, text });
        }
        report.more_changes = changes.len().saturating_sub(MOST_CHANGES);
        report.git = git?;
    }
    Ok(report)
}

/// Why the project's copy does not show the changes of the run in `folder`, if it does not.
fn not_in_copy(folder: &Path, record: Option<&RunRecord>) -> Option<String> {
    if !record.is_some_and(|record| record.copy) {
        let reason = "The record of this run does not state that the run used a copy: it worked on the work \
                      tree itself or on none, or an older version of the sandbox wrote the record. `sandbox \
                      diff` shows what waits in the project's copy.";
        return Some(reason.to_owned());
    }
    let all = run_folder::folders(folder.parent().unwrap_or(folder));
    let later = all.iter().rev().take_while(|other| *other != folder);
    let later = { later }.find(|other| RunRecord::read(other).is_some_and(|record| record.copy))?;
    let later = run_folder::id_of(later);
    Some(format!(
        "A later run, {later}, worked on the same copy: its report shows the changes that wait there."
    ))
}

/// Writes the page to the user's file, replacing an existing one and never following a link.
fn write(project: &Project, file: PathBuf, page: &str) -> Result<PathBuf, Failure> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(".".as_ref());
    let name = file.file_name().ok_or_else(|| Failure::usage("--file must name a file"))?;
    let doing = || format!("write `{}`", file.display());
    let folder = project.resolver.find(parent).map_err(Failure::doing(doing()))?;
    folder.remove(name).map_err(Failure::doing(doing()))?;
    let mut to = folder.create_new(name, crate::trace::LOG_MODE).map_err(Failure::doing(doing()))?;
    std::io::Write::write_all(&mut to, page.as_bytes()).map_err(Failure::doing(doing()))?;
    Ok(file)
}

#[cfg(test)]
mod tests;
