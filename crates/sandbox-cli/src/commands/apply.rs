//! `apply`: applies a task's changes in its copy to the work tree.

use sandbox::SandboxConfig;
use sandbox::workspace::{Applied, ApplyOptions, GitChanges, WorkspaceCopy, WorkspaceError};
use serde::Serialize;

use crate::args::{ApplyArgs, Output};
use crate::change_report::{ChangeReport, line, reports};
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::git_report::{coming, report_staying};
use crate::printer::Printer;
use crate::settings::TrustedProject;
use crate::workspace_copy::{explained, report_withheld, settled};

use super::diff::NO_COPY;
use super::result_copy::with_result;

/// Applies all changes, or none. Without changes of a task there is no copy, and nothing to do.
pub(crate) async fn apply(
    args: &ApplyArgs,
    project: &TrustedProject,
    sandbox: impl FnOnce() -> Result<SandboxConfig, Failure>,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let options = ApplyOptions {
        protection: project.protection(false),
        include_withheld: args.include_protected,
        force: args.force,
        git_settings: args.git_config.clone(),
    };
    if args.result.result.is_some() {
        let apply = |copy: WorkspaceCopy| copy.apply(&options).map_err(explained_of_result);
        let applied = with_result(&args.result, project, sandbox, environment, printer, apply).await?;
        return Ok(reported(&applied, args, printer));
    }
    let Some(copy) = settled(&project.copy_dir(), sandbox).await? else {
        match args.output {
            Output::Json => drop(printer.line(json(&Applied::default()))),
            Output::Text => printer.message(NO_COPY),
        }
        return Ok(ExitStatus::Success);
    };
    let applied = copy.apply(&options).map_err(explained)?;
    Ok(reported(&applied, args, printer))
}

/// The error of a refused apply of a result, with a hint.
fn explained_of_result(error: WorkspaceError) -> Failure {
    match error {
        WorkspaceError::Conflict { .. } => Failure::from(error)
            .with_hint("`sandbox diff --result` marks them with !; --force takes the task's version"),
        error => error.into(),
    }
}

fn reported(applied: &Applied, args: &ApplyArgs, printer: Printer) -> ExitStatus {
    match args.output {
        Output::Json => drop(printer.line(json(applied))),
        Output::Text => report(applied, printer),
    }
    ExitStatus::Success
}

fn report(applied: &Applied, printer: Printer) {
    let lines = applied.applied.iter().map(line).chain(coming(&applied.git));
    // Stops once stdout is closed.
    let _ = { lines }.all(|line| printer.line(line));
    report_withheld(applied, printer);
    report_staying(&applied.git, printer);
}

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct ApplyReport<'a> {
    version: u32,
    applied: Vec<ChangeReport>,
    withheld: Vec<ChangeReport>,
    git: &'a GitChanges,
}

fn json(applied: &Applied) -> String {
    let report = ApplyReport {
        version: 2,
        applied: reports(&applied.applied),
        withheld: reports(&applied.withheld),
        git: &applied.git,
    };
    // Serializing texts and numbers cannot fail.
    serde_json::to_string(&report).unwrap_or_default()
}
