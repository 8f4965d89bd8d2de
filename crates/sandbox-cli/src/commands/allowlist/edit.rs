//! `allowlist allow` and `deny`: change a rule of the project's file.

use allowlist::{InvalidRule, Rule, RuleChange};

use crate::args::EditArgs;
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Project;

/// Allows or denies a rule in the file; the result is negative if `deny` still forbids a part of an
/// allowed one.
pub(super) fn change(
    args: &EditArgs,
    change: fn(Rule) -> RuleChange,
    project: &Project,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let text = args.rule.join(" ");
    let rule = text.parse().map_err(|error: InvalidRule| {
        Failure::usage(format!("`{}` is not a valid rule: {error}", text.escape_debug()))
    })?;
    let mut changed = project.change_rule(args.allowlist.as_deref(), environment, &change(rule))?;
    changed.remarks().print(printer);
    for line in changed.lines(printer) {
        printer.line(line);
    }
    Ok(if changed.left.is_empty() { ExitStatus::Success } else { ExitStatus::Negative })
}
