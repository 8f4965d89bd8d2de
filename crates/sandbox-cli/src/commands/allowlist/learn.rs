//! `allowlist learn`: the rules that a run would have needed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use allowlist::{
    Doubt, HostPattern, LearnStep, Learnt, LearntPreset, LearntRule, LeftOut, PolicyText, Preset, Rule,
};
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

/// The maximum number of requests, and of hosts, that are shown for a reason not to add a rule.
const MOST_SHOWN: usize = 16;

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
    let policy = project.within_outer(file.policy().clone())?;
    let asked = up_to_rules.into_iter().map(|logged| logged.asked);
    let mut learnt = policy.learn_up_to(args.step(), asked, &narrow);
    let doubtful = learnt.remove_doubtful(file.policy(), &args.with);
    let rules: Vec<Rule> = learnt.rules.iter().map(|learnt| learnt.rule.clone()).collect();
    let presets: Vec<Preset> = learnt.presets.iter().map(|learnt| learnt.preset).collect();
    let changed = file.text().with(&presets, &rules).map_err(|error| Failure::new(error.to_string()))?;
    if args.output == Output::Text {
        show(&learnt, &doubtful, &file, &changed, printer);
        let refused: u64 = others.iter().map(|logged| logged.asked.count).sum();
        if refused > 0 {
            printer.message(format_args!("{refused} requests were refused for reasons that no rule can change; see `sandbox allowlist why`"));
        }
    }
    let new = presets.len() + rules.len();
    let written = new > 0 && is_wanted(args.yes, args.output, &file, printer)?;
    if written {
        project.replace_policy(&file, &changed)?.print(printer);
        printer.message(format_args!("{} has {}", file.label(), more_rules(new)));
    }
    if args.output == Output::Json {
        // Serializing texts and numbers cannot fail.
        let report = report(&learnt, &doubtful, &file, written);
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

/// Hosts that get rules only if the user names them.
type Doubtful = BTreeMap<Doubt, Vec<String>>;

fn show(learnt: &Learnt, doubtful: &Doubtful, file: &PolicyFile, changed: &PolicyText, printer: Printer) {
    let is_new = !learnt.rules.is_empty() || !learnt.presets.is_empty();
    if !is_new && doubtful.is_empty() {
        printer.message(format_args!("{} allows all requests that a rule could allow", file.label()));
    } else if is_new {
        show_change(file, changed, printer);
        printer.line("");
        for LearntPreset { preset, requests, blocked, paths } in &learnt.presets {
            let rules = preset.rules().len();
            printer.line(format_args!(
                "preset {preset}  {}, from {paths} paths; its {rules} rules: `sandbox allowlist presets {preset}`",
                counts(*requests, *blocked)
            ));
        }
        for rule in &learnt.rules {
            printer.line(format_args!("{}  {}", sanitize_name(&rule.rule.to_yaml()), note(rule)));
        }
    }
    let left_out = learnt.left_out.iter();
    show_left_out(
        left_out.map(|(asked, why)| (format!("{} {}", asked.method, asked.url), why.as_str())),
        printer,
    );
    for line in doubtful.iter().map(|(doubt, hosts)| not_proposed(*doubt, hosts)) {
        printer.warning(line);
    }
    if !doubtful.is_empty() {
        printer.message(
            "`--output json` lists all of them; after a review, `--with HOST` adds the rules for such \
             hosts, with or without wildcards",
        );
    }
}

/// Lists requests that get no rule, with the reasons, up to a maximum number.
pub(super) fn show_left_out<'a>(
    left_out: impl ExactSizeIterator<Item = (String, &'a str)>,
    printer: Printer,
) {
    let more = left_out.len().saturating_sub(MOST_SHOWN);
    for (request, why) in left_out.take(MOST_SHOWN) {
        printer.message(format_args!("left out: {}: {why}", sanitize_name(&request)));
    }
    if more > 0 {
        printer.message(format_args!("left out: {more} more"));
    }
}

fn not_proposed(doubt: Doubt, hosts: &[String]) -> String {
    let shown: Vec<&str> = hosts.iter().take(MOST_SHOWN).map(String::as_str).collect();
    let more = hosts.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("no rules are proposed for {}{more}: {}", sanitize_name(&shown.join(", ")), doubt.as_str())
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
    let mut note = counts(learnt.requests, learnt.blocked);
    let LearntRule { step, paths, .. } = learnt;
    // Writing to a string cannot fail.
    let _ = match step {
        LearnStep::Exact => write!(note, ", exact"),
        LearnStep::Query | LearnStep::Folder | LearnStep::Host => {
            write!(note, ", generalised by {} from {paths} paths", step.as_str())
        }
    };
    note
}

fn counts(requests: u64, blocked: u64) -> String {
    let noun = if requests == 1 { "request" } else { "requests" };
    let blocked = if blocked > 0 { format!(", {blocked} of them blocked") } else { String::new() };
    format!("# {requests} {noun}{blocked}")
}

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct Report<'a> {
    version: u32,
    file: &'a str,
    /// Whether the rules are in the file now.
    written: bool,
    presets: Vec<PresetReport>,
    rules: Vec<RuleReport>,
    left_out: Vec<LeftOutReport<'a>>,
    /// Hosts that get rules only if `--with` names them.
    doubtful: Vec<DoubtfulReport<'a>>,
}

#[derive(Debug, Serialize)]
struct PresetReport {
    name: &'static str,
    requests: u64,
    blocked: u64,
    /// Number of paths, including queries, that it allows of the recorded ones.
    paths: usize,
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

#[derive(Debug, Serialize)]
struct DoubtfulReport<'a> {
    why: &'static str,
    /// Those with the most requests first.
    hosts: &'a [String],
}

fn report<'a>(learnt: &'a Learnt, doubtful: &'a Doubtful, file: &'a PolicyFile, written: bool) -> Report<'a> {
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
    let presets = learnt.presets.iter().map(|learnt| PresetReport {
        name: learnt.preset.name(),
        requests: learnt.requests,
        blocked: learnt.blocked,
        paths: learnt.paths,
    });
    let left_out = learnt.left_out.iter().map(|(asked, why): &(_, LeftOut)| LeftOutReport {
        method: &asked.method,
        url: &asked.url,
        count: asked.count,
        why: why.as_str(),
    });
    let doubtful = doubtful.iter().map(|(doubt, hosts)| DoubtfulReport { why: doubt.as_str(), hosts });
    Report {
        version: 1,
        file: file.label(),
        written,
        presets: presets.collect(),
        rules: rules.collect(),
        left_out: left_out.collect(),
        doubtful: doubtful.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubtful_hosts_are_a_line_with_samples() {
        let hosts: Vec<String> = (0..40).map(|at| format!("a{at}.test")).collect();
        assert_eq!(
            not_proposed(Doubt::International, &hosts[..2]),
            "no rules are proposed for a0.test, a1.test: an internationalized name (xn--)"
        );
        let line = not_proposed(Doubt::Hosts, &hosts);
        assert!(line.contains("a15.test and 24 more: ") && !line.contains("a16.test"), "{line}");
    }
}
