//! The error that Claude Code reports, and the outcome that it means.

use claude_output::{ApiError, ResultError, StreamEvent};
use sandbox_proxy_protocol::REFUSAL_ID;

use super::{Evidence, Outcome};

/// The beginnings of lines that report an error without a status.
const PHRASES: &[(&str, Outcome)] = &[
    ("Prompt is too long", Outcome::PromptTooLong),
    ("Invalid API key", Outcome::AuthenticationFailed),
    ("Not logged in", Outcome::AuthenticationFailed),
    ("Failed to authenticate", Outcome::AuthenticationFailed),
    ("OAuth token ", Outcome::AuthenticationFailed),
    ("Credit balance", Outcome::AuthenticationFailed),
    ("You've hit your ", Outcome::RateLimited),
    ("Claude AI usage limit reached", Outcome::RateLimited),
    ("API Error: Request rejected (429)", Outcome::RateLimited),
    ("API Error: Connection", Outcome::ApiUnavailable),
    ("API Error: API returned an empty or malformed response", Outcome::ApiUnavailable),
    ("There's an issue with the selected model", Outcome::InvalidRequest),
];

/// The mark of the sandbox's own refusals in their bodies, which versions without request ids in
/// their events print whole.
const REFUSAL_BODY: &str = "blocked_by_network_allowlist";
/// The reason in such a body.
const BUDGET_BODY: &str = r#""reason":"budget""#;

/// The error that Claude Code reports.
pub(super) struct ErrorReport<'a> {
    /// The error of a result event, or of the API where there is no result.
    report: Option<ResultError>,
    /// The texts that count as its own reports.
    texts: Vec<&'a str>,
    /// Whether the conversation is only a prompt: then the API did not refuse the conversation.
    is_fresh: bool,
}

impl<'a> ErrorReport<'a> {
    /// `error` is that of the last result.
    pub(super) fn of_result(error: Option<ResultError>, evidence: &Evidence<'a>) -> Self {
        let is_specific = error.as_ref().is_some_and(|error| {
            error.api_error_status.is_some() || error.api_error.is_some() || error.terminal_reason.is_some()
        });
        Self::new(error, is_specific, evidence)
    }

    /// `error` is the API's last one, of an execution that has no result.
    pub(super) fn of_cut_off(error: Option<ApiError>, evidence: &Evidence<'a>) -> Self {
        let report = error.map(ResultError::from);
        let is_specific = report.as_ref().is_some_and(|report| {
            report.api_error_status.is_some() || report.api_error.is_some() || report.text.is_some()
        });
        Self::new(report, is_specific, evidence)
    }

    fn new(report: Option<ResultError>, is_specific: bool, evidence: &Evidence<'a>) -> Self {
        let mut texts = Vec::new();
        if !is_specific {
            texts.extend(evidence.text_lines.iter().map(String::as_str));
            texts.extend(evidence.stderr.lines());
        }
        let is_fresh = !evidence.resumes && !evidence.events.iter().any(StreamEvent::is_from_model);
        Self { report, texts, is_fresh }
    }

    /// The rows of the table between `success` and `killed`, in their order.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        let rows = [
            (Outcome::BudgetExhausted, self.is_over_budget()),
            (Outcome::BlockedByPolicy, self.is_blocked()),
            (Outcome::TurnLimitReached, self.is_limit("error_max_turns", "max_turns")),
            (Outcome::PromptTooLong, self.is_prompt_too_long()),
            (Outcome::AuthenticationFailed, self.is_authentication_failed()),
            (Outcome::RateLimited, self.has_status(|status| status == 429) || self.is_class(&["rate_limit"])),
            (Outcome::ApiUnavailable, self.is_api_unavailable()),
            (Outcome::SessionCorrupted, self.is_session_corrupted()),
            (Outcome::InvalidRequest, self.is_invalid_request()),
        ];
        let fits = |(outcome, fits): (Outcome, bool)| (fits || self.has_phrase(outcome)).then_some(outcome);
        rows.into_iter().find_map(fits)
    }

    /// Whether the proxy refused, and would refuse again: not because it was busy.
    fn is_blocked(&self) -> bool {
        let has_status = self.report.as_ref().is_some_and(|report| report.api_error_status.is_some());
        let ours = self.reported(|report| &report.request_id).is_some_and(|id| id.starts_with(REFUSAL_ID))
            || self
                .all_texts()
                .any(|text| (has_status || leading_status(text).is_some()) && text.contains(REFUSAL_BODY));
        ours && self.has_status(|status| (400..500).contains(&status) && status != 408)
    }

    /// Whether Claude Code's own budget is used up, or that of the policy.
    fn is_over_budget(&self) -> bool {
        let reason = self.reported(|report| &report.request_id).and_then(|id| id.strip_prefix(REFUSAL_ID));
        let refused = reason == Some("budget") || self.all_texts().any(|text| text.contains(BUDGET_BODY));
        self.is_limit("error_max_budget_usd", "budget_exhausted") || (refused && self.is_blocked())
    }

    fn is_limit(&self, subtype: &str, terminal_reason: &str) -> bool {
        self.reported(|report| &report.subtype) == Some(subtype)
            || self.reported(|report| &report.terminal_reason) == Some(terminal_reason)
    }

    fn is_prompt_too_long(&self) -> bool {
        self.reported(|report| &report.terminal_reason) == Some("prompt_too_long")
            || self.has_status(|status| status == 413)
    }

    /// The class `billing_error` counts regardless of the status: a key without credit gets 400,
    /// and a fresh session does not help.
    fn is_authentication_failed(&self) -> bool {
        self.reported(|report| &report.class) == Some("billing_error")
            || self.has_status(|status| matches!(status, 401..=403))
            || self.is_class(&["authentication_failed", "oauth_org_not_allowed"])
    }

    fn is_api_unavailable(&self) -> bool {
        self.has_status(|status| status == 408 || (500..600).contains(&status))
            || self.reported(|report| &report.api_error) == Some("connection_failed")
            || self.is_class(&["server_error", "overloaded"])
    }

    fn is_session_corrupted(&self) -> bool {
        if self.reported(|report| &report.api_error) == Some("tool_history_mismatch")
            || self.reported(|report| &report.terminal_reason) == Some("image_error")
        {
            return true;
        }
        let is_refused = self.has_status(|status| matches!(status, 400 | 409 | 422));
        is_refused
            && match self.all_texts().find_map(refused_field) {
                Some(field) => field == "messages",
                None => !self.is_fresh,
            }
    }

    fn is_invalid_request(&self) -> bool {
        self.has_status(|status| (400..500).contains(&status))
            || self.is_class(&["invalid_request", "model_not_found"])
    }

    /// Whether a text begins with a phrase that means `outcome`, and no status is more specific.
    fn has_phrase(&self, outcome: Outcome) -> bool {
        let begins =
            |text: &str| PHRASES.iter().any(|(words, means)| *means == outcome && text.starts_with(words));
        let has_status = self.report.as_ref().is_some_and(|report| report.api_error_status.is_some());
        // Claude Code has one text for a conversation that is too long, and several statuses.
        (!has_status || outcome == Outcome::PromptTooLong) && self.all_texts().any(begins)
    }

    fn reported(&self, field: impl FnOnce(&ResultError) -> &Option<String>) -> Option<&str> {
        self.report.as_ref().and_then(|report| field(report).as_deref())
    }

    /// The text of the report, then the lines.
    fn all_texts(&self) -> impl Iterator<Item = &str> {
        let own = self.report.as_ref().and_then(|report| report.text.as_deref());
        let texts = own.into_iter().chain(self.texts.iter().copied());
        texts.map(|text| text.strip_prefix("Error: ").unwrap_or(text))
    }

    /// Whether the status of the report fits, or that of a text if the report has none.
    fn has_status(&self, fits: impl Fn(u16) -> bool) -> bool {
        match self.report.as_ref().and_then(|report| report.api_error_status) {
            Some(status) => fits(status),
            None => self.all_texts().filter_map(leading_status).any(|(status, _)| fits(status)),
        }
    }

    /// Whether there is no status, and Claude Code assigns the error to one of these classes: "Not
    /// logged in" never reached the API.
    fn is_class(&self, classes: &[&str]) -> bool {
        self.report.as_ref().is_some_and(|report| {
            report.api_error_status.is_none()
                && report.class.as_deref().is_some_and(|class| classes.contains(&class))
        })
    }
}

/// The status of a text such as `API Error: 529 Overloaded`, and the rest of the text.
fn leading_status(text: &str) -> Option<(u16, &str)> {
    let text = text.strip_prefix("Failed to authenticate. ").unwrap_or(text);
    let (digits, rest) = text.strip_prefix("API Error: ")?.split_at_checked(3)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = !rest.starts_with(|next: char| next.is_ascii_alphanumeric());
    Some((digits.parse().ok().filter(|_| is_number && is_whole)?, rest))
}

/// The part of the request that the API refuses: `messages` of `API Error: 400
/// messages.1.content.0: …`.
fn refused_field(text: &str) -> Option<&str> {
    let (_, rest) = leading_status(text)?;
    let (path, _) = rest.trim_start().split_once(": ")?;
    let is_path = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let field = path.split('.').next().unwrap_or_default();
    (!field.is_empty() && path.bytes().all(is_path)).then_some(field)
}
