//! `allowlist why`: explains the verdict on a URL, or the refused requests of a run.

use allowlist::{AbsoluteUrl, Allowlist, HostName, Match};
use located_yaml::Location;
use serde::Serialize;

use super::check::{self, Verdict};
use super::requests::{self, Logged};
use crate::args::{Output, WhyArgs};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, sanitize_name};
use crate::run_folder;
use crate::settings::Project;

/// The maximum number of rules named in addition to a verdict.
const MOST_NEAR: usize = 8;

/// Explains the URL, or the refused requests of the run.
pub(super) fn why(args: &WhyArgs, project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    let policy = project.allowlist(&args.policy, printer)?;
    match &args.subject {
        Some(url) if url.contains("://") => {
            let place = project.policy_file(args.policy.allowlist.as_deref())?.text().places();
            Ok(url_report(&policy, url, &place, args, printer))
        }
        run => {
            let folder = run_folder::find(&project.logs(), run.as_deref())?;
            let logged = requests::of_run(&folder, printer)?;
            Ok(run_report(&policy, &logged, args.output, printer))
        }
    }
}

/// The document of `--output json` for a URL; `version` rises when a field changes its meaning or
/// is removed.
#[derive(Debug, Serialize)]
struct UrlReport {
    version: u32,
    #[serde(flatten)]
    verdict: Verdict,
    /// Rules for the same host, or for hosts of the same domain.
    nearest: Vec<Match>,
}

fn url_report(
    policy: &Allowlist,
    url: &str,
    place: &dyn Fn(&Match) -> Option<Location>,
    args: &WhyArgs,
    printer: Printer,
) -> ExitStatus {
    let verdict = Verdict::on(policy, &args.method, url.as_bytes()).with_place(place);
    let nearest = nearest(policy, url);
    let status = if verdict.allowed { ExitStatus::Success } else { ExitStatus::Negative };
    match args.output {
        Output::Json => {
            let report = UrlReport { version: 1, verdict, nearest };
            // Serializing texts and numbers cannot fail.
            printer.line(serde_json::to_string(&report).unwrap_or_default());
        }
        Output::Text => {
            printer.line(check::text(&verdict, printer));
            match nearest.as_slice() {
                [] => drop(printer.line("        no rule names this host or its domain")),
                nearest => {
                    for rule in nearest {
                        let place = place(rule).map(|place| format!("{place} ")).unwrap_or_default();
                        printer.line(printer.sanitize(&format!("        near it: {place}{rule}")));
                    }
                }
            }
        }
    }
    status
}

/// The rules for the host of `url`, otherwise those for hosts of the same domain.
fn nearest(policy: &Allowlist, url: &str) -> Vec<Match> {
    let authority = AbsoluteUrl::split(url.as_bytes()).map(|url| url.authority());
    let authority = authority.and_then(|authority| allowlist::Authority::from_user(authority).ok());
    let Some(host) = authority.as_ref().map(allowlist::Authority::host) else {
        return Vec::new();
    };
    let places = |is_near: &dyn Fn(&allowlist::HostPattern) -> bool| -> Vec<Match> {
        let near = policy.places().filter(|(_, rule)| is_near(rule.host()));
        near.map(|(place, _)| place).take(MOST_NEAR).collect()
    };
    let same = places(&|pattern| pattern.matches(host));
    if !same.is_empty() {
        return same;
    }
    let domain = domain(host);
    places(&|pattern| pattern.as_str() == domain || pattern.as_str().ends_with(&format!(".{domain}")))
}

/// The last two labels.
fn domain(host: &HostName) -> &str {
    let host = host.as_str();
    host.rmatch_indices('.').nth(1).and_then(|(at, _)| host.get(at + 1..)).unwrap_or(host)
}

/// The document of `--output json` for a run.
#[derive(Debug, Serialize)]
struct RunReport<'a> {
    version: u32,
    refused: Vec<Refusal<'a>>,
}

/// Requests that were refused for the same reason.
#[derive(Debug, Serialize)]
struct Refusal<'a> {
    count: u64,
    method: &'a str,
    url: &'a str,
    /// The reason for the refusal.
    reason: &'static str,
    /// Whether the policy allows them now.
    allowed_now: bool,
    /// The change that would allow them, if rules decide it.
    message: Option<String>,
}

fn run_report(policy: &Allowlist, logged: &[Logged], output: Output, printer: Printer) -> ExitStatus {
    let refused = logged.iter().filter_map(|logged| {
        let reason = logged.reason?.as_str();
        let Logged { asked, .. } = logged;
        let verdict = Verdict::on(policy, &asked.method, asked.url.as_bytes());
        let allowed_now = logged.is_up_to_rules() && verdict.allowed;
        let message = verdict.message.filter(|_| logged.is_up_to_rules());
        Some(Refusal {
            count: asked.count,
            method: &asked.method,
            url: &asked.url,
            reason,
            allowed_now,
            message,
        })
    });
    let refused: Vec<_> = refused.collect();
    match output {
        Output::Json => {
            let report = RunReport { version: 1, refused };
            printer.line(serde_json::to_string(&report).unwrap_or_default());
        }
        Output::Text if refused.is_empty() => printer.message("no request of this run was refused"),
        Output::Text => {
            for refusal in &refused {
                if !printer.line(text(refusal)) {
                    break;
                }
            }
        }
    }
    ExitStatus::Success
}

fn text(refusal: &Refusal<'_>) -> String {
    let Refusal { count, method, url, reason, allowed_now, message } = refusal;
    let request = sanitize_name(&format!("{method} {url}"));
    let what = match message {
        _ if *allowed_now => "now allowed by the allowlist".to_owned(),
        Some(message) => sanitize_name(message),
        None => "no rule can change that; docs/network-log.md explains the reason".to_owned(),
    };
    format!("{count} x {request} [reason: {reason}]\n        {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_the_host_are_nearer_than_those_for_its_domain() {
        let policy =
            "domains: [x.a.test, '*.b.test']\nurl_prefixes: [{host: a.test, path: /v1}, {host: c.test}]";
        let policy = Allowlist::from_yaml(policy, "p").unwrap();
        let shown = |url: &str| nearest(&policy, url).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown("https://a.test/v2"), ["url_prefixes[0]: a.test/v1"]);
        assert_eq!(shown("https://y.a.test/"), ["domains[0]: x.a.test", "url_prefixes[0]: a.test/v1"]);
        assert_eq!(shown("https://b.test/"), ["domains[1]: *.b.test"]);
        assert_eq!(shown("https://d.test/"), Vec::<String>::new());
        assert_eq!(shown("nonsense"), Vec::<String>::new());
    }

    #[test]
    fn refusal_is_one_line_with_the_fix() {
        let refusal = Refusal {
            count: 3,
            method: "GET",
            url: "https://a.test/\n\u{1b}[31mx",
            reason: "host",
            allowed_now: false,
            message: Some("add \"a.test\"".to_owned()),
        };
        assert_eq!(
            text(&refusal),
            "3 x GET https://a.test/\\n\\u{1b}[31mx [reason: host]\n        add \"a.test\""
        );
    }
}
