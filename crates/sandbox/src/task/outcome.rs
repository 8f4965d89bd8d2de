//! What an execution came to, read from what Claude Code itself reports.
//!
//! Its own words are: the error of a result event; a line of stderr; a line of stdout that is not JSON, which is how versions before
//! the structured errors spoke. Messages, tool results and results that are not an error are words of the model or of a tool, and are
//! never looked at. A result outranks lines of text: where one says how the run ended, noise on stderr does not change it.

use claude_output::{ResultError, StreamEvent, extract_result_summary};
use serde::Serialize;

/// What an execution came to: the one value that a caller matches on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Claude Code answered: it reported a result without an error, and ended with exit code 0.
    Success,
    /// The time limit ended it. What it did to the mounts stays.
    Timeout,
    /// The caller, or the end of the sandbox, stopped it.
    Stopped,
    /// The conversation no longer fits the model. Begin a fresh session.
    PromptTooLong,
    /// The API refused the credentials, or the account cannot pay. The same call fails again.
    AuthenticationFailed,
    /// The API asked to slow down. Try again later.
    RateLimited,
    /// The API failed or was out of reach. Try again later.
    ApiUnavailable,
    /// The API refused the conversation as it is. Begin a fresh session.
    SessionCorrupted,
    /// Everything else; the error summary has the words.
    ContainerFailed,
}

/// Who ended the execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It ended, or something in the container ended it.
    Itself,
    /// We did, at its time limit.
    Timeout,
    /// We did, because someone asked.
    Stopped,
    /// We did, because it wrote more than we keep.
    OutputLimit,
}

/// What is known of an execution that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) ended: Ended,
    pub(crate) exit_code: i64,
    pub(crate) events: &'a [StreamEvent],
    /// The lines of stdout that are no JSON.
    pub(crate) text_lines: &'a [String],
    pub(crate) stderr: &'a str,
}

impl Outcome {
    /// The name in JSON, such as `prompt_too_long`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Timeout => "timeout",
            Self::Stopped => "stopped",
            Self::PromptTooLong => "prompt_too_long",
            Self::AuthenticationFailed => "authentication_failed",
            Self::RateLimited => "rate_limited",
            Self::ApiUnavailable => "api_unavailable",
            Self::SessionCorrupted => "session_corrupted",
            Self::ContainerFailed => "container_failed",
        }
    }
}

/// Classifies an execution: the first outcome that fits.
pub(crate) fn classify(evidence: &Evidence<'_>) -> Outcome {
    match evidence.ended {
        Ended::Timeout => return Outcome::Timeout,
        Ended::Stopped => return Outcome::Stopped,
        Ended::Itself | Ended::OutputLimit => {}
    }
    let summary = extract_result_summary(evidence.events);
    let ended_well = evidence.ended == Ended::Itself && evidence.exit_code == 0;
    let report = match &summary {
        Some(summary) if summary.error.is_none() && ended_well => return Outcome::Success,
        Some(summary) => summary.error.as_ref(),
        // Without a result it was cut off, or is not Claude Code: whatever its exit code, it did not answer.
        None => None,
    };
    Complaint::new(report, evidence).outcome().unwrap_or(Outcome::ContainerFailed)
}

/// What Claude Code says went wrong.
struct Complaint<'a> {
    /// The error of a result event.
    report: Option<&'a ResultError>,
    /// The texts that count as its words.
    texts: Vec<&'a str>,
}

impl<'a> Complaint<'a> {
    fn new(report: Option<&'a ResultError>, evidence: &Evidence<'a>) -> Self {
        let mut texts: Vec<&str> = report.and_then(|report| report.text.as_deref()).into_iter().collect();
        if !report.is_some_and(is_specific) {
            texts.extend(evidence.text_lines.iter().map(String::as_str));
            texts.extend(evidence.stderr.lines());
        }
        Self { report, texts }
    }

    /// The rows of the table between those that we ended and those that ended well, in their order.
    fn outcome(&self) -> Option<Outcome> {
        let rows = [
            (Outcome::PromptTooLong, self.is_prompt_too_long()),
            (Outcome::AuthenticationFailed, self.is_authentication_failed()),
            (Outcome::RateLimited, self.has_status(|status| status == 429) || self.is_class("rate_limit")),
            (Outcome::ApiUnavailable, self.is_api_unavailable()),
            (Outcome::SessionCorrupted, self.has_status(|status| matches!(status, 400 | 409 | 422))),
        ];
        rows.into_iter().find_map(|(outcome, fits)| fits.then_some(outcome))
    }

    fn is_prompt_too_long(&self) -> bool {
        self.report.is_some_and(|report| report.terminal_reason.as_deref() == Some("prompt_too_long"))
            || self.has_status(|status| status == 413)
            || self.begins_with("Prompt is too long")
    }

    /// The class `billing_error` is looked at whatever the status: a key without credit gets 400, and a fresh session does not help.
    fn is_authentication_failed(&self) -> bool {
        let billing = self.report.is_some_and(|report| report.class.as_deref() == Some("billing_error"));
        billing
            || self.has_status(|status| matches!(status, 401..=403))
            || self.is_class("authentication_failed")
    }

    fn is_api_unavailable(&self) -> bool {
        self.has_status(|status| status == 408 || (500..600).contains(&status))
            || self.report.is_some_and(|report| report.api_error.as_deref() == Some("connection_failed"))
            || self.begins_with("API Error: Connection")
    }

    fn begins_with(&self, words: &str) -> bool {
        self.texts.iter().any(|text| text.starts_with(words))
    }

    /// Whether the status of the report, or where there is none that of a text, is so.
    fn has_status(&self, fits: impl Fn(u16) -> bool) -> bool {
        match self.report.and_then(|report| report.api_error_status) {
            Some(status) => fits(status),
            None => self.texts.iter().filter_map(|text| leading_status(text)).any(fits),
        }
    }

    /// Whether there is no status, and Claude Code puts the error in this class: "Not logged in" never reached the API.
    fn is_class(&self, class: &str) -> bool {
        self.report
            .is_some_and(|report| report.api_error_status.is_none() && report.class.as_deref() == Some(class))
    }
}

/// Whether a report says more than its text does.
fn is_specific(report: &ResultError) -> bool {
    report.api_error_status.is_some() || report.api_error.is_some() || report.terminal_reason.is_some()
}

/// The status of a text such as `API Error: 529 Overloaded`.
fn leading_status(text: &str) -> Option<u16> {
    let (digits, rest) = text.strip_prefix("API Error: ")?.split_at_checked(3)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = !rest.starts_with(|next: char| next.is_ascii_alphanumeric());
    (is_number && is_whole).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
