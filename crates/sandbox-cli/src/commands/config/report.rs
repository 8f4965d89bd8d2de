//! The findings, as text and as JSON. They contain no values of credentials.

use allowlist::HostPattern;
use located_yaml::Position;
use serde::Serialize;

use crate::args::Output;
use located_yaml::{InvalidFile, Location};

use crate::config::{Advice, CredentialsFile, InvalidConfiguration};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::printer::{Printer, Style};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// A run does not start.
    Error,
    /// A run starts, but probably not as intended.
    Warning,
}

/// A problem in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    severity: Severity,
    /// These three are absent if it has no particular place.
    file: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

impl Finding {
    /// The errors that keep a run from starting: one finding for each error of a configuration.
    pub(super) fn failures(failure: &Failure) -> Vec<Self> {
        match failure.find::<InvalidConfiguration>() {
            Some(invalid) => invalid.problems().iter().map(Self::problem).collect(),
            None => vec![Self::failure(failure)],
        }
    }

    fn problem(problem: &InvalidFile) -> Self {
        Self::at(Severity::Error, problem.location(), problem.message().to_owned())
    }

    /// An error that keeps a run from starting.
    pub(super) fn failure(failure: &Failure) -> Self {
        if let Some(problem) = failure.find::<InvalidFile>() {
            return Self::problem(problem);
        }
        let mut message = failure.to_string();
        for text in failure.causes().iter().map(String::as_str).chain(failure.hint()) {
            message.push_str(": ");
            message.push_str(text);
        }
        Self { severity: Severity::Error, ..Self::warning(message) }
    }

    pub(super) fn advice(advice: Advice) -> Self {
        Self::at(Severity::Warning, &advice.location, advice.message)
    }

    /// A warning without a place.
    pub(super) fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, file: None, line: None, column: None, message: message.into() }
    }

    fn at(severity: Severity, location: &Location, message: String) -> Self {
        let Position { line, column } = location.position();
        Self {
            severity,
            file: Some(location.file().to_owned()),
            line: Some(line),
            column: Some(column),
            message,
        }
    }

    fn text(&self, printer: Printer) -> String {
        let (style, word) = match self.severity {
            Severity::Error => (Style::Bad, "error:"),
            Severity::Warning => (Style::Warning, "warning:"),
        };
        let word = printer.styled(style, word);
        let message = printer.sanitize(&self.message);
        match (&self.file, self.line, self.column) {
            (Some(file), Some(line), Some(column)) => {
                format!("{word} {file}:{line}:{column}: {message}")
            }
            _ => format!("{word} {message}"),
        }
    }
}

/// A secret that the task gets a surrogate of.
#[derive(Debug, Serialize)]
struct Masked {
    variable: String,
    preset: Option<&'static str>,
    scopes: Vec<String>,
    headers: Vec<String>,
}

/// A key that requests are signed again with.
#[derive(Debug, Serialize)]
struct Signing {
    name: String,
    variables: Vec<String>,
    scopes: Vec<String>,
}

/// All findings.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Rises when a field changes its meaning or is removed.
    version: u32,
    /// Whether a run would start, as far as can be determined without an engine.
    ok: bool,
    findings: Vec<Finding>,
    masked_secrets: Vec<Masked>,
    signing_credentials: Vec<Signing>,
    logins: Vec<LoginOf>,
}

/// A login that agents get surrogates of.
#[derive(Debug, Serialize)]
struct LoginOf {
    agent: &'static str,
    scopes: Vec<String>,
}

impl Report {
    pub(super) fn new(findings: Vec<Finding>) -> Self {
        Self {
            version: 1,
            ok: findings.iter().all(|finding| finding.severity == Severity::Warning),
            findings,
            masked_secrets: Vec::new(),
            signing_credentials: Vec::new(),
            logins: Vec::new(),
        }
    }

    pub(super) fn with_credentials(mut self, credentials: &CredentialsFile) -> Self {
        let texts = |scopes: &[HostPattern]| scopes.iter().map(ToString::to_string).collect();
        let masked = credentials.masked.iter().map(|entry| Masked {
            variable: entry.variable.clone(),
            preset: entry.preset.map(sandbox::credentials::Preset::name),
            scopes: texts(&entry.injection.scopes),
            headers: entry.injection.headers.iter().map(|header| header.as_str().to_owned()).collect(),
        });
        let signing = credentials.signing.iter().map(|entry| Signing {
            name: entry.name.clone(),
            variables: entry.variables().into_iter().map(str::to_owned).collect(),
            scopes: texts(&entry.scopes),
        });
        let logins = credentials.logins.iter();
        let logins =
            logins.map(|entry| LoginOf { agent: entry.kind.name(), scopes: texts(&entry.injection.scopes) });
        self.logins = logins.collect();
        self.masked_secrets = masked.collect();
        self.signing_credentials = signing.collect();
        self
    }

    /// Prints it and returns the exit status.
    pub(super) fn print(&self, output: Output, printer: Printer) -> ExitStatus {
        match output {
            Output::Json => {
                // Serializing texts and numbers cannot fail.
                printer.line(serde_json::to_string(self).unwrap_or_default());
            }
            Output::Text => {
                for line in self.lines(printer) {
                    if !printer.line(line) {
                        break;
                    }
                }
            }
        }
        if self.ok { ExitStatus::Success } else { ExitStatus::Infrastructure }
    }

    pub(super) fn lines(&self, printer: Printer) -> Vec<String> {
        let mut lines: Vec<String> = self.findings.iter().map(|finding| finding.text(printer)).collect();
        for Masked { variable, scopes, headers, .. } in &self.masked_secrets {
            lines.push(format!("{variable} is masked, for {} in {}", scopes.join(", "), headers.join(", ")));
        }
        for Signing { name, variables, scopes } in &self.signing_credentials {
            lines.push(format!(
                "{name} ({}) is masked; requests are signed again for {}",
                variables.join(", "),
                scopes.join(", ")
            ));
        }
        for LoginOf { agent, scopes } in &self.logins {
            lines.push(format!("the login of {agent} is masked, for {}", scopes.join(", ")));
        }
        if self.findings.is_empty() {
            lines.push(format!("{} no errors", printer.styled(Style::Good, "ok:")));
        }
        lines
    }
}
