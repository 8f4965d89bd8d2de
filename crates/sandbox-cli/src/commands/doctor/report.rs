//! The results, as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use crate::args::Output;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, Style, sanitize};

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Verdict {
    fn shown(self) -> (Style, &'static str) {
        match self {
            Self::Ok => (Style::Good, "ok  "),
            Self::Warn => (Style::Warning, "warn"),
            Self::Fail => (Style::Bad, "FAIL"),
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    name: &'static str,
    verdict: Verdict,
    detail: String,
    /// How to fix it.
    hint: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, detail: detail.into(), hint: None }
    }

    pub(super) fn warn(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warn, detail: detail.into(), hint: Some(hint.into()) }
    }

    pub(super) fn fail(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Fail, detail: detail.into(), hint: Some(hint.into()) }
    }

    /// A failed check, with the hint of `failure`.
    pub(super) fn failed(name: &'static str, failure: &Failure) -> Self {
        let mut detail = failure.to_string();
        for cause in failure.causes() {
            detail.push_str(": ");
            detail.push_str(&cause);
        }
        Self { name, verdict: Verdict::Fail, detail, hint: failure.hint().map(str::to_owned) }
    }

    #[cfg(test)]
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// All results.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Rises when a field changes its meaning or is removed.
    version: u32,
    /// Whether no check failed.
    ok: bool,
    checks: Vec<Check>,
}

impl Report {
    pub(super) fn new(checks: Vec<Check>) -> Self {
        Self { version: 1, ok: checks.iter().all(|check| check.verdict < Verdict::Fail), checks }
    }

    /// Prints it and returns the exit status.
    pub(super) fn print(&self, output: Output, printer: Printer) -> ExitStatus {
        match output {
            Output::Json => {
                // Serializing texts cannot fail.
                printer.line(serde_json::to_string(self).unwrap_or_default());
            }
            Output::Text => {
                printer.data(self.text(printer).as_bytes());
            }
        }
        if self.ok { ExitStatus::Success } else { ExitStatus::Negative }
    }

    fn text(&self, printer: Printer) -> String {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
        let mut text = String::new();
        for Check { name, verdict, detail, hint } in &self.checks {
            let (style, word) = verdict.shown();
            let indent = " ".repeat(width + 8);
            let detail = sanitize(detail).replace('\n', &format!("\n{indent}"));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}  {name:<width$}  {detail}", printer.styled(style, word));
            if let Some(hint) = hint {
                let hint = sanitize(hint).replace('\n', &format!("\n{indent}"));
                let _ = writeln!(text, "{indent}hint: {hint}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report::new(vec![
            Check::ok("engine", "podman 5.4.2"),
            Check::warn("control groups", "version 1", "boot with version 2"),
            Check::fail("proxy", "there is none", "build it"),
        ])
    }

    #[test]
    fn each_problem_has_its_fix() {
        insta::assert_snapshot!(report().text(Printer::new(0, true)), @r"
        ok    engine          podman 5.4.2
        warn  control groups  version 1
                              hint: boot with version 2
        FAIL  proxy           there is none
                              hint: build it
        ");
        insta::assert_snapshot!(serde_json::to_string(&report()).unwrap(), @r#"{"version":1,"ok":false,"checks":[{"name":"engine","verdict":"ok","detail":"podman 5.4.2","hint":null},{"name":"control groups","verdict":"warn","detail":"version 1","hint":"boot with version 2"},{"name":"proxy","verdict":"fail","detail":"there is none","hint":"build it"}]}"#);
    }

    #[test]
    fn name_cannot_move_the_cursor_or_forge_a_line() {
        let name = "a\u{1b}[2J\nok    engine";
        let text = Report::new(vec![Check::warn("allowlist", name, name)]).text(Printer::new(0, true));
        insta::assert_snapshot!(text, @r"
        warn  allowlist  a\u{1b}[2J
                         ok    engine
                         hint: a\u{1b}[2J
                         ok    engine
        ");
    }

    #[test]
    fn only_failures_change_the_exit_code() {
        let printer = Printer::new(0, true);
        assert_eq!(report().print(Output::Json, printer).code(), 1);
        let warned = Report::new(vec![Check::warn("x", "y", "z")]);
        assert_eq!(warned.print(Output::Json, printer).code(), 0);
    }
}
