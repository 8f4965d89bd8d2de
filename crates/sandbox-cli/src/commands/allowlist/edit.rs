//! `allowlist allow` and `deny`: add a rule to the project's file, or remove it.

use std::path::Path;

use allowlist::{InvalidRule, Match, Rule};

use crate::args::EditArgs;
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, Style};
use crate::settings::{AddedRule, Project, Remarks};

/// The result of removing a rule.
#[derive(Debug)]
pub(in crate::commands) struct Removal {
    pub(in crate::commands) label: String,
    pub(in crate::commands) removed: Vec<Rule>,
    pub(in crate::commands) remarks: Remarks,
    /// Rules that still allow it, in whole or in part.
    pub(in crate::commands) left: Vec<Match>,
}

/// Adds a rule unless another one already covers it.
pub(super) fn allow(
    args: &EditArgs,
    project: &Project,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let rule = rule(args)?;
    match project.add_rule(args.allowlist.as_deref(), environment, &rule)? {
        AddedRule::Covered(place) => drop(printer.line(format_args!("already allowed by {place}"))),
        AddedRule::Added { label, remarks } => {
            remarks.print(printer);
            let added = printer.styled(Style::Good, format_args!("+ {}", rule.to_yaml()));
            printer.line(format_args!("{added}  in `{}` of {label}", rule.kind().list()));
        }
    }
    Ok(ExitStatus::Success)
}

/// Removes the rules that allow nothing else, and reports those that still allow it.
pub(super) fn deny(args: &EditArgs, project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    let rule = rule(args)?;
    let Removal { label, removed, remarks, left } = remove(&rule, project, args.allowlist.as_deref())?;
    remarks.print(printer);
    for own in &removed {
        let shown = printer.styled(Style::Bad, format_args!("- {}", own.to_yaml()));
        printer.line(format_args!("{shown}  in `{}` of {label}", own.kind().list()));
    }
    for place in &left {
        printer.line(format_args!("still allowed, in whole or in part, by {place}"));
    }
    if removed.is_empty() && left.is_empty() {
        printer.line(format_args!("nothing in {label} allows it"));
    }
    Ok(if left.is_empty() { ExitStatus::Success } else { ExitStatus::Negative })
}

/// Removes the rules that `rule` covers from the file named by a flag, otherwise from the
/// project's.
pub(in crate::commands) fn remove(
    rule: &Rule,
    project: &Project,
    flag: Option<&Path>,
) -> Result<Removal, Failure> {
    let file = project.policy_file(flag)?;
    let removed: Vec<Rule> =
        file.policy().own_rules().iter().filter(|own| rule.covers(own)).cloned().collect();
    let changed = file.text().without(&removed).map_err(|error| Failure::new(error.to_string()))?;
    let remarks =
        if removed.is_empty() { Remarks::default() } else { project.replace_policy(&file, &changed)? };
    let left = changed.policy().places().filter(|(_, other)| other.may_meet(rule)).map(|(place, _)| place);
    Ok(Removal { label: file.label().to_owned(), removed, remarks, left: left.collect() })
}

fn rule(args: &EditArgs) -> Result<Rule, Failure> {
    let text = args.rule.join(" ");
    text.parse().map_err(|error: InvalidRule| {
        Failure::usage(format!("`{}` is not a valid rule: {error}", text.escape_debug()))
    })
}
