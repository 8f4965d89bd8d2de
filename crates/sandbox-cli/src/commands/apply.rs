//! `apply`: brings what a task changed in its copy into the work tree.

use sandbox::{Applied, ApplyOptions, WorkspaceCopy, WorkspaceError};
use serde::Serialize;

use crate::args::{ApplyArgs, Output};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Project;

use super::diff::{ChangeReport, NO_COPY, line, reports};

/// Applies all of it, or nothing.
pub(crate) fn apply(args: &ApplyArgs, project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    let Some(copy) = WorkspaceCopy::open(project.copy_dir())? else {
        return Err(Failure::new(NO_COPY));
    };
    let options = ApplyOptions {
        protection: project.protection(),
        include_held_back: args.include_protected,
        force: args.force,
    };
    let applied = copy.apply(&options).map_err(explained)?;
    match args.output {
        Output::Json => drop(printer.line(json(&applied))),
        Output::Text => tell(&applied, printer),
    }
    Ok(ExitStatus::Success)
}

fn explained(error: WorkspaceError) -> Failure {
    let hint = matches!(error, WorkspaceError::Conflict { .. })
        .then_some("`sandbox diff` marks them with !; --force lets the task's version win, `sandbox discard` this machine's");
    match hint {
        Some(hint) => Failure::from(error).with_hint(hint),
        None => error.into(),
    }
}

fn tell(applied: &Applied, printer: Printer) {
    for change in &applied.applied {
        if !printer.line(line(change)) {
            break;
        }
    }
    if !applied.held_back.is_empty() {
        printer.warning(format_args!(
            "{} changes were left out, and stay in the copy:",
            applied.held_back.len()
        ));
        for change in &applied.held_back {
            printer.message(line(change));
        }
        printer.hint("look at them, then `sandbox apply --include-protected` or `sandbox discard`; devices, pipes and sockets are never applied");
    }
}

/// What `--output json` prints; it changes its version when a field changes its meaning or goes away.
#[derive(Debug, Serialize)]
struct ApplyReport {
    version: u32,
    applied: Vec<ChangeReport>,
    held_back: Vec<ChangeReport>,
}

fn json(applied: &Applied) -> String {
    let report = ApplyReport {
        version: 1,
        applied: reports(&applied.applied),
        held_back: reports(&applied.held_back),
    };
    // Texts and numbers always have a form in JSON.
    serde_json::to_string(&report).unwrap_or_default()
}
