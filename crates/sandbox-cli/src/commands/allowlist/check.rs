//! `allowlist check`: the verdicts on requests, without a network.

use std::io::{self, BufRead as _};
use std::os::unix::ffi::OsStrExt as _;

use allowlist::{Allowlist, Decision, Match, Reason};
use located_yaml::Location;
use serde::Serialize;

use crate::args::{CheckArgs, Output};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, Style};
use crate::settings::Project;

/// The file that messages ask the user to change.
pub(in crate::commands) const ALLOWLIST: &str = ".sandbox/network-allowlist.yaml";

/// The answer for one URL; one line of `allowlist check --output json`.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    /// As given.
    method: String,
    /// As given; invalid UTF-8 is shown as U+FFFD.
    url: String,
    /// Whether the request would be forwarded, unless its address is refused.
    pub(super) allowed: bool,
    /// The rule that allows it, or the one of `deny` that forbids it.
    rule: Option<Match>,
    /// The file, line and column of that rule, if it is in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// Why it is blocked.
    reason: Option<Reason>,
    /// The document of the outer policy that blocks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    /// Why it is blocked and what to change, in one sentence; or the condition on the request's
    /// body.
    pub(super) message: Option<String>,
}

impl Verdict {
    /// The verdict of `policy` on a request.
    pub(super) fn on(policy: &Allowlist, method: &str, url: &[u8]) -> Self {
        let mut document = None;
        let (rule, reason, message) = match policy.judge(method, url) {
            Decision::Allow(rule) => (Some(rule), None, None),
            Decision::NeedsBody(check) => (check.rule().cloned(), None, Some(check.condition())),
            Decision::Deny(denial) => {
                let message = denial.message_naming(ALLOWLIST);
                document = denial.document().map(str::to_owned);
                let rule = denial.denied_by().and_then(|at| policy.denied_places().nth(at));
                (rule.map(|(rule, _)| rule), Some(denial.reason()), Some(message))
            }
        };
        Self {
            method: method.to_owned(),
            url: String::from_utf8_lossy(url).into_owned(),
            allowed: reason.is_none(),
            rule,
            place: None,
            reason,
            document,
            message,
        }
    }
}

impl Verdict {
    /// The same, with the position of its rule as `place` finds it.
    pub(super) fn with_place(mut self, place: impl Fn(&Match) -> Option<Location>) -> Self {
        self.place = self.rule.as_ref().and_then(place).map(|place| place.to_string());
        self
    }

    /// The request, as it was given.
    pub(super) fn request(&self) -> String {
        format!("{} {}", self.method, self.url)
    }
}

/// Checks each URL, and those on stdin.
pub(super) fn check(args: &CheckArgs, project: &Project, printer: Printer) -> Result<ExitStatus, Failure> {
    let policy = project.allowlist(&args.policy, printer)?;
    let place = project.policy_file(args.policy.allowlist.as_deref())?.text().places();
    let mut worst = Worst::default();
    for url in &args.urls {
        if url != "-" {
            let verdict = Verdict::on(&policy, &args.method, url.as_bytes());
            worst.report(&verdict.with_place(&place), args.output, printer);
            continue;
        }
        for line in io::stdin().lock().split(b'\n') {
            let line = line.map_err(Failure::doing("read stdin"))?;
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if !line.iter().all(u8::is_ascii_whitespace) {
                let verdict = judge_line(&policy, &args.method, line).with_place(&place);
                worst.report(&verdict, args.output, printer);
            }
        }
    }
    Ok(worst.status())
}

/// Judges a line `METHOD URL`, or `URL` with the default `method`. The URL is taken byte for byte.
fn judge_line(policy: &Allowlist, method: &str, line: &[u8]) -> Verdict {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let line = line.get(start..).unwrap_or_default();
    // A method cannot contain a colon.
    let first = line.split(is_blank).next().unwrap_or_default();
    if first.contains(&b':') {
        return Verdict::on(policy, method, line);
    }
    let parts = line.iter().position(is_blank).and_then(|end| {
        let (method, rest) = line.split_at(end);
        let url = rest.iter().position(|byte| !is_blank(byte)).and_then(|at| rest.get(at..))?;
        Some((std::str::from_utf8(method).ok()?, url))
    });
    match parts {
        Some((method, url)) => Verdict::on(policy, method, url),
        None => Verdict {
            method: String::new(),
            url: String::from_utf8_lossy(line).into_owned(),
            allowed: false,
            rule: None,
            place: None,
            reason: Some(Reason::Unreadable),
            document: None,
            message: Some(
                "invalid line: write a URL, or a method and a URL, as in `GET https://example.com/`"
                    .to_owned(),
            ),
        },
    }
}

/// The worst of the verdicts so far.
#[derive(Debug, Default)]
struct Worst {
    blocked: bool,
    unreadable: bool,
}

impl Worst {
    /// Prints the verdict. It counts even if stdout is closed.
    fn report(&mut self, verdict: &Verdict, output: Output, printer: Printer) {
        self.blocked |= !verdict.allowed;
        self.unreadable |= verdict.reason == Some(Reason::Unreadable);
        match output {
            // Serializing texts and numbers cannot fail.
            Output::Json => printer.line(serde_json::to_string(verdict).unwrap_or_default()),
            Output::Text => printer.line(text(verdict, printer)),
        };
    }

    fn status(&self) -> ExitStatus {
        match self {
            Self { unreadable: true, .. } => ExitStatus::Usage,
            Self { blocked: true, .. } => ExitStatus::Negative,
            _ => ExitStatus::Success,
        }
    }
}

/// The verdict as text.
pub(super) fn text(verdict: &Verdict, printer: Printer) -> String {
    let Verdict { method, url, rule, place, reason, message, .. } = verdict;
    let request = printer.sanitize(format!("{method} {url}").trim_start());
    let place = place.as_deref().map(|place| printer.sanitize(&format!("{place} "))).unwrap_or_default();
    match rule {
        Some(rule) if verdict.allowed => {
            let condition = message.as_deref().map(|condition| format!(", {condition}")).unwrap_or_default();
            format!(
                "{} {request} by {place}{rule}{}",
                printer.styled(Style::Good, "allowed"),
                printer.sanitize(&condition)
            )
        }
        _ => format!(
            "{} {request} [reason: {}]\n        {place}{}",
            printer.styled(Style::Bad, "BLOCKED"),
            reason.map(Reason::as_str).unwrap_or_default(),
            printer.sanitize(message.as_deref().unwrap_or_default())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> Allowlist {
        Allowlist::from_yaml(
            "
presets: [github]
domains: [a.example]
url_prefixes:
  - {host: b.example, path: /v1/*, methods: [GET]}
  - {host: c.example, path: /r.git, git: {push: [refs/heads/agent/*, refs/tags/*]}}
",
            "t",
        )
        .unwrap()
    }

    #[test]
    fn lines_are_read_byte_for_byte() {
        for (line, allowed, reason) in [
            ("GET https://a.example/", true, None),
            ("  GET \t https://a.example/x", true, None),
            ("POST https://b.example/v1/x", false, Some(Reason::Method)),
            ("https://a.example/", true, None),
            (" https://b.example/v1/x", false, Some(Reason::Method)),
            ("PUT", false, Some(Reason::Unreadable)),
            ("ftp://a.example/", false, Some(Reason::Unreadable)),
            ("https://a.example/ x", false, Some(Reason::Path)),
            ("GET ", false, Some(Reason::Unreadable)),
            ("GET https://a.example/ ", false, Some(Reason::Path)),
            ("G(T https://a.example/", false, Some(Reason::Unreadable)),
        ] {
            let verdict = judge_line(&policy(), "PUT", line.as_bytes());
            assert_eq!((verdict.allowed, verdict.reason), (allowed, reason), "{line:?}");
        }
        assert_eq!(
            judge_line(&policy(), "GET", b"GET\xff https://a.example/").reason,
            Some(Reason::Unreadable)
        );
    }

    #[test]
    fn worst_verdict_is_the_exit_code() {
        let printer = Printer::new(0, true);
        let mut worst = Worst::default();
        assert_eq!(worst.status().code(), 0);
        worst.report(&Verdict::on(&policy(), "GET", b"https://a.example/"), Output::Text, printer);
        assert_eq!(worst.status().code(), 0);
        worst.report(&Verdict::on(&policy(), "GET", b"https://d.example/"), Output::Text, printer);
        assert_eq!(worst.status().code(), 1);
        worst.report(&Verdict::on(&policy(), "GET", b"nonsense"), Output::Json, printer);
        assert_eq!(worst.status().code(), 2);
        worst.report(&Verdict::on(&policy(), "GET", b"https://a.example/"), Output::Text, printer);
        assert_eq!(worst.status().code(), 2);
    }

    #[test]
    fn verdict_names_the_rule_or_the_fix() {
        let printer = Printer::new(0, true);
        let shown = |method: &str, url: &str| text(&Verdict::on(&policy(), method, url.as_bytes()), printer);
        insta::assert_snapshot!(shown("GET", "https://a.example/x"), @"allowed GET https://a.example/x by domains[0]: a.example");
        insta::assert_snapshot!(shown("GET", "https://b.example/v1/x"), @"allowed GET https://b.example/v1/x by url_prefixes[0]: b.example/v1/*");
        insta::assert_snapshot!(shown("POST", "https://c.example/r/git-receive-pack"), @"allowed POST https://c.example/r/git-receive-pack by url_prefixes[1]: c.example/r.git, if the refs pushed are allowed: refs/heads/agent/*, refs/tags/*");
        insta::assert_snapshot!(shown("GET", "https://api.github.com/repos/o/r"), @"allowed GET https://api.github.com/repos/o/r by preset github, url_prefixes[5]: api.github.com");
        insta::assert_snapshot!(shown("POST", "https://b.example/v1/x"), @r#"
        BLOCKED POST https://b.example/v1/x [reason: method]
                POST is not allowed for this path of b.example: to allow it, add {host: "b.example", path: "/v1/x", methods: [POST]} to `url_prefixes` in .sandbox/network-allowlist.yaml
        "#);
    }

    #[test]
    fn json_verdict_has_a_fixed_shape() {
        let json = |url: &str| serde_json::to_string(&Verdict::on(&policy(), "GET", url.as_bytes())).unwrap();
        assert_eq!(
            json("https://a.example/"),
            r#"{"method":"GET","url":"https://a.example/","allowed":true,"rule":{"kind":"domain","index":0,"host":"a.example","path":null},"reason":null,"message":null}"#
        );
        assert_eq!(
            json("https://b.example/v1/x"),
            r#"{"method":"GET","url":"https://b.example/v1/x","allowed":true,"rule":{"kind":"url","index":0,"host":"b.example","path":"/v1/*"},"reason":null,"message":null}"#
        );
        assert_eq!(
            json("https://d.example/"),
            r#"{"method":"GET","url":"https://d.example/","allowed":false,"rule":null,"reason":"host","message":"d.example is not allowed: to allow it, add \"d.example\" to `domains` in .sandbox/network-allowlist.yaml, or for this path only {host: \"d.example\", path: \"/\"} to `url_prefixes`"}"#
        );
    }
}
