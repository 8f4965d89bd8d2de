//! `allowlist learn`: the rules that a run would have needed.

use std::fmt::Write as _;

use allowlist::{HostPattern, LearnStep, Learnt, LearntRule, LeftOut, PolicyText, Rule};
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::requests;
use crate::args::{LearnArgs, Output};
use crate::config::Environment;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize, sanitize_name};
use crate::run_folder;
use crate::settings::{PolicyFile, Project};

/// Shows the rules, and writes them if the user agrees.
pub(super) fn learn(
    args: &LearnArgs,
    project: &Project,
    environment: &Environment,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let folders = run_folder::find_each(&project.logs(), &args.runs)?;
    let logged = requests::of_runs(&folders, printer)?;
    let file = project.extended_policy_file(args.allowlist.as_deref(), environment)?;
    let (up_to_rules, others): (Vec<_>, Vec<_>) =
        logged.into_iter().partition(requests::Logged::is_up_to_rules);
    let narrow: Vec<HostPattern> =
        project.credentials().scopes().flat_map(|(_, _, scopes)| scopes).cloned().collect();
    let learnt =
        file.policy().learn_up_to(args.step(), up_to_rules.into_iter().map(|logged| logged.asked), &narrow);
    let rules: Vec<Rule> = learnt.rules.iter().map(|learnt| learnt.rule.clone()).collect();
    let changed = file.text().with(&rules).map_err(|error| Failure::new(error.to_string()))?;
    if args.output == Output::Text {
        show(&learnt, &file, &changed, printer);
        let refused: u64 = others.iter().map(|logged| logged.asked.count).sum();
        if refused > 0 {
            printer.message(format_args!("{refused} requests were refused for reasons that no rule can change; see `sandbox allowlist why`"));
        }
    }
    let written = !rules.is_empty() && is_wanted(args.yes, args.output, &file, printer)?;
    if written {
        project.replace_policy(&file, &changed)?.print(printer);
        printer.message(format_args!("{} has {}", file.label(), more_rules(rules.len())));
    }
    if args.output == Output::Json {
        // Serializing texts and numbers cannot fail.
        let report = report(&learnt, &file, written);
        printer.line(serde_json::to_string(&report).unwrap_or_default());
    }
    Ok(ExitStatus::Success)
}

/// Whether to write the rules that were shown.
pub(super) fn is_wanted(
    yes: bool,
    output: Output,
    file: &PolicyFile,
    printer: Printer,
) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if output == Output::Json || !printer.can_ask() {
        printer.message("nothing was written; pass --yes to write the rules");
        return Ok(false);
    }
    printer.agrees(format_args!("Write this to {}?", file.label()))
}

fn show(learnt: &Learnt, file: &PolicyFile, changed: &PolicyText, printer: Printer) {
    if learnt.rules.is_empty() {
        printer.message(format_args!("{} allows all requests that a rule could allow", file.label()));
    } else {
        show_change(file, changed, printer);
        printer.line("");
        for rule in &learnt.rules {
            printer.line(format_args!("{}  {}", sanitize_name(&rule.rule.to_yaml()), note(rule)));
        }
    }
    for (asked, why) in &learnt.left_out {
        let request = sanitize_name(&format!("{} {}", asked.method, asked.url));
        printer.message(format_args!("left out: {request}: {}", why.as_str()));
    }
}

/// The number of added rules, as text.
pub(super) fn more_rules(count: usize) -> String {
    if count == 1 { "1 more rule".to_owned() } else { format!("{count} more rules") }
}

/// Shows `changed` as a difference to `file`.
pub(super) fn show_change(file: &PolicyFile, changed: &PolicyText, printer: Printer) {
    let diff = TextDiff::from_lines(file.text().as_str(), changed.as_str());
    // Text chosen by a task must not hide the rules that the user accepts.
    let diff = diff.unified_diff().header(file.label(), file.label()).to_string();
    printer.line(sanitize(diff.trim_end()));
}

/// The requests that a rule was derived from, as a comment.
fn note(learnt: &LearntRule) -> String {
    let requests = if learnt.requests == 1 { "request" } else { "requests" };
    let mut note = format!("# {} {requests}", learnt.requests);
    // Writing to a string cannot fail.
    if learnt.blocked > 0 {
        let _ = write!(note, ", {} of them blocked", learnt.blocked);
    }
    let LearntRule { step, paths, .. } = learnt;
    let _ = match step {
        LearnStep::Exact => write!(note, ", exact"),
        LearnStep::Query | LearnStep::Folder | LearnStep::Host => {
            write!(note, ", generalised by {} from {paths} paths", step.as_str())
        }
    };
    note
}

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct Report<'a> {
    version: u32,
    file: &'a str,
    /// Whether the rules are in the file now.
    written: bool,
    rules: Vec<RuleReport>,
    left_out: Vec<LeftOutReport<'a>>,
}

#[derive(Debug, Serialize)]
struct RuleReport {
    /// An entry of `url_prefixes`.
    rule: Value,
    requests: u64,
    blocked: u64,
    /// By what it was generalised: `exact` (not at all), `query`, `folder` or `host`.
    step: &'static str,
    /// Number of paths, including queries, that it was generalised from.
    paths: usize,
}

#[derive(Debug, Serialize)]
struct LeftOutReport<'a> {
    method: &'a str,
    url: &'a str,
    count: u64,
    why: &'static str,
}

fn report<'a>(learnt: &'a Learnt, file: &'a PolicyFile, written: bool) -> Report<'a> {
    let rules = learnt.rules.iter().map(|learnt| RuleReport {
        rule: match &learnt.rule {
            Rule::Domain(host) => Value::from(host.as_str()),
            Rule::Url(rule) => serde_json::to_value(rule).unwrap_or_default(),
        },
        requests: learnt.requests,
        blocked: learnt.blocked,
        step: learnt.step.as_str(),
        paths: learnt.paths,
    });
    let left_out = learnt.left_out.iter().map(|(asked, why): &(_, LeftOut)| LeftOutReport {
        method: &asked.method,
        url: &asked.url,
        count: asked.count,
        why: why.as_str(),
    });
    Report { version: 1, file: file.label(), written, rules: rules.collect(), left_out: left_out.collect() }
}
