//! `allowlist …`: checks and edits the policy without a network, and except for `packages` without
//! an engine.

mod check;
mod diff;
mod edit;
mod learn;
mod packages;
mod requests;
mod simulate;
mod why;

pub(super) use check::ALLOWLIST;
pub(super) use packages::packages;
pub(super) use requests::url;

use std::path::Path;

use allowlist::{Preset, RuleChange};

use crate::args::AllowlistCommand;
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, Style};
use crate::settings::Project;
use crate::table::aligned;

/// Runs the subcommand.
pub(crate) fn allowlist(
    command: AllowlistCommand,
    project: &Project,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    match command {
        AllowlistCommand::Check(args) => check::check(&args, project, printer),
        AllowlistCommand::Lint(args) => lint(args.allowlist.as_deref(), project, printer),
        AllowlistCommand::Allow(args) => {
            edit::change(&args, RuleChange::Allow, project, environment, printer)
        }
        AllowlistCommand::Deny(args) => edit::change(&args, RuleChange::Deny, project, environment, printer),
        AllowlistCommand::Why(args) => why::why(&args, project, printer),
        AllowlistCommand::Learn(args) => learn::learn(&args, project, environment, printer),
        // Handled earlier, as a command that runs a container.
        AllowlistCommand::Packages(_) => Ok(ExitStatus::Usage),
        AllowlistCommand::Simulate(args) => simulate::simulate(&args, project, printer),
        AllowlistCommand::Diff(args) => diff::diff(&args, project, printer),
        AllowlistCommand::Presets { name } => Ok(presets(name, printer)),
    }
}

fn presets(name: Option<Preset>, printer: Printer) -> ExitStatus {
    if let Some(preset) = name {
        printer.data(preset.yaml().as_bytes());
        return ExitStatus::Success;
    }
    let rows = Preset::all().map(|preset| [preset.name(), preset.description()].map(str::to_owned).to_vec());
    for line in aligned(&rows.collect::<Vec<_>>()) {
        if !printer.line(line) {
            break;
        }
    }
    ExitStatus::Success
}

fn lint(named: Option<&Path>, project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    let path = named.map_or_else(|| project.allowlist_path(), Path::to_owned);
    if project.read_allowlist(&path)?.is_none() {
        return Err(match named {
            Some(path) => project.missing_allowlist(path),
            None => Failure::new(project.no_allowlist(&path)),
        });
    }
    let file = project.policy_file(named)?;
    let warnings = file.text().lint().map_err(|problem| Failure::new(problem.to_string()))?;
    for (location, warning) in &warnings {
        let word = printer.styled(Style::Warning, "warning:");
        if !printer.line(format_args!("{word} {location}: {}", printer.sanitize(warning.message()))) {
            break;
        }
    }
    if warnings.is_empty() {
        printer.message(format_args!("{}: no warnings", file.label()));
        return Ok(ExitStatus::Success);
    }
    Ok(ExitStatus::Negative)
}
