//! `report`: a run as an HTML page, or as JSON.

use std::path::{Path, PathBuf};

use sandbox::network::NetworkLog;
use sandbox::workspace::WorkspaceCopy;
use sandbox_files::Replacement;

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
mod page;

use content::{Report, ShownChange};

/// The number of changes shown, and of those of git; `sandbox diff` shows all.
const MOST_CHANGES: usize = 200;
/// The maximum size of a text file whose changes are shown, in bytes.
const LARGEST_TEXT: u64 = 128 << 10;

/// Writes the page and prints its path, or prints the JSON.
pub(crate) fn report(args: ReportArgs, project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    let folder = run_folder::find(&project.logs(), args.run.as_deref())?;
    let run = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let record = RunRecord::read(&folder);
    let mut report = Report { run, project: project.root.display().to_string(), record, ..Report::default() };
    let policy = project.read_allowlist(&project.allowlist_path())?.unwrap_or_default();
    report.read_log(&NetworkLog::new(&folder), &policy)?;
    report.read_session(&project.resolver)?;
    report.no_changes = not_in_copy(&folder, report.record.as_ref());
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
    if args.output == Output::Json {
        printer.line(content::json(&report));
        return Ok(ExitStatus::Success);
    }
    let page = page::page(&report);
    let written = match args.file {
        None => {
            let file = folder.join("report.html");
            let doing = format!("write `{}`", file.display());
            Replacement::private().write(&file, page.as_bytes()).map_err(Failure::doing(doing))?;
            file
        }
        Some(file) => write(project, file, &page)?,
    };
    printer.line(written.display());
    Ok(ExitStatus::Success)
}

/// Why the project's copy does not show the changes of the run in `folder`, if it does not.
fn not_in_copy(folder: &Path, record: Option<&RunRecord>) -> Option<String> {
    if !record.is_some_and(|record| record.copy) {
        let reason = "The record of this run names no copy of the work tree: the run worked on the work tree \
                      itself or on none, or an older version of the sandbox wrote the record.";
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
