//! `allowlist diff`: what another policy newly allows and blocks.

use std::ffi::OsStr;

use allowlist::{
    Allowlist, Change, Comparison, Difference, Doubtful, Example, ExampleBody, Preset, Undecided,
};
use serde::Serialize;

use crate::args::{DiffPoliciesArgs, Output};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, Style, sanitize_name};
use crate::settings::Project;

/// The exit code if no difference is known, and some rules or bodies are undecided.
const UNDECIDED: u8 = 3;

/// Prints an example for each rule that makes a difference.
pub(super) fn diff(
    args: &DiffPoliciesArgs,
    project: &Project,
    printer: Printer,
) -> Result<ExitStatus, Failure> {
    let [old, new] = [read(&args.old, project)?, read(&args.new, project)?];
    let comparison = old.compare(&new);
    match args.output {
        Output::Json => {
            let report = Report { version: 1, comparison: &comparison };
            // Serializing texts and numbers cannot fail.
            printer.line(serde_json::to_string(&report).unwrap_or_default());
        }
        Output::Text => {
            if comparison.is_same() {
                printer.message("both allow the same requests");
            }
            for line in lines(&comparison, printer) {
                if !printer.line(line) {
                    break;
                }
            }
        }
    }
    Ok(match () {
        () if comparison.differs() => ExitStatus::Negative,
        () if comparison.is_same() => ExitStatus::Success,
        () => ExitStatus::Command(UNDECIDED),
    })
}

/// The policy of a file, or of a preset if there is no such file.
fn read(name: &OsStr, project: &Project) -> Result<Allowlist, Failure> {
    let path = std::path::absolute(name).map_err(Failure::doing("find the current folder"))?;
    let preset = || name.to_str().and_then(Preset::named);
    match (project.read_allowlist(&path)?, preset()) {
        (Some(policy), _) => Ok(policy),
        (None, Some(preset)) => Ok(Allowlist::default().with_presets([preset])),
        (None, None) => Err(Failure::new(format!("the allowlist `{}` does not exist", path.display()))
            .with_hint("name a file, or one of `sandbox allowlist presets`")),
    }
}

/// The document of `--output json`; `version` rises when a field changes its meaning or is removed.
#[derive(Debug, Serialize)]
struct Report<'a> {
    version: u32,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

fn lines(comparison: &Comparison, printer: Printer) -> Vec<String> {
    let allowed = printer.styled(Style::Good, "newly allowed");
    let blocked = printer.styled(Style::Bad, "newly BLOCKED");
    let mut lines: Vec<String> = Vec::new();
    for (word, differences) in [
        (&allowed, &comparison.newly_allowed),
        (&allowed, &comparison.no_longer_denied),
        (&blocked, &comparison.newly_blocked),
        (&blocked, &comparison.newly_denied),
    ] {
        lines.extend(differences.iter().map(|difference| line(word, difference)));
    }
    lines.extend(comparison.vendor_tools.as_ref().map(|change| changed("vendor tools", change)));
    lines.extend(comparison.budget.as_ref().map(|change| changed("budget", change)));
    let undecided = printer.styled(Style::Warning, "not decided");
    lines.extend(comparison.undecided.iter().map(|rule| format!("{undecided}   {}", doubt(rule))));
    if comparison.bodies_may_differ {
        lines.push(format!(
            "{undecided}   bodies of requests to models' vendors: `vendor_tools` depends on the rules"
        ));
    }
    lines
}

fn changed<T: Serialize>(name: &str, Change { from, to, .. }: &Change<T>) -> String {
    // Serializing texts and numbers cannot fail.
    let [from, to] = [from, to].map(|setting| serde_json::to_string(setting).unwrap_or_default());
    format!("{name:<13} from {} to {}", sanitize_name(&from), sanitize_name(&to))
}

/// In the form of other lines: the request, then the rule.
fn line(word: &str, Difference { rule, example, .. }: &Difference) -> String {
    let by = sanitize_name(&rule.to_string());
    let Some(Example { method, url, body, .. }) = example else {
        return format!("{word} no request that was found\n              by {by}");
    };
    let request = sanitize_name(&format!("{method} {url}"));
    let body = match body {
        None => String::new(),
        Some(ExampleBody::Update(name)) => format!(", a push to {name}"),
        Some(ExampleBody::Force(name)) => format!(", a push to {name} that loses commits"),
        Some(ExampleBody::Delete(name)) => format!(", the deletion of {name}"),
        Some(_) => ", with a body that is not a push".to_owned(),
    };
    format!("{word} {request}{}\n              by {by}", sanitize_name(&body))
}

fn doubt(Undecided { rule, allows, reason, .. }: &Undecided) -> String {
    let which = if *allows { "allows more" } else { "allowed more" };
    let reason = match reason {
        Doubtful::Encoding => "requests with encoded characters may be judged differently",
        Doubtful::Refused => "`deny` or `vendor_tools` refuse the requests that were tried",
        Doubtful::VendorPush => "rules for repositories differ at hosts of models' vendors",
        _ => "its patterns and those of other rules can be combined in too many ways",
    };
    format!("whether this {which}: {}\n              {reason}", sanitize_name(&rule.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_shown_in_words() {
        let read = |text| Allowlist::from_yaml(text, "policy").unwrap();
        let old = read(
            "{domains: [a.test], deny: [c.test], url_prefixes: [{host: api.openai.com, path: /v1/x, methods: [POST]}]}",
        );
        let new = read(
            "{budget: {requests: 5}, vendor_tools: {web_search: policy}, deny: [d.test], \
             url_prefixes: [{host: a.test, methods: [GET]}, {host: b.test, path: /r, git: {push: [refs/heads/*]}}]}",
        );
        let printer = Printer::new(0, true);
        insta::assert_snapshot!(lines(&old.compare(&new), printer).join("\n"), @r#"
        newly allowed GET https://b.test/r/info/refs?service=git-upload-pack
                      by url_prefixes[1]: b.test/r
        newly allowed no request that was found
                      by deny[0]: c.test
        newly BLOCKED HEAD https://a.test/
                      by domains[0]: a.test
        newly BLOCKED no request that was found
                      by deny[0]: d.test
        vendor tools  from {} to {"web_search":"policy"}
        budget        from {} to {"requests":5}
        not decided   whether this allowed more: url_prefixes[0]: api.openai.com/v1/x
                      `deny` or `vendor_tools` refuse the requests that were tried
        not decided   bodies of requests to models' vendors: `vendor_tools` depends on the rules
        "#);
        assert!(lines(&old.compare(&old), printer).is_empty());
    }
}
