//! What an execution came to, told from what Claude Code itself reports.
//!
//! Its own words are: the error of a result event; a line of stderr; a line of stdout that is no JSON, which is how versions before
//! the structured errors spoke. Messages, tool results and results that are no error are words of the model or of a tool, and are
//! never looked at. A result outranks lines of text: where one says how the run ended, noise on stderr does not change it.

use claude_output::{ResultError, StreamEvent, extract_result_summary};
use serde::Serialize;

/// What an execution came to: the one value that a caller matches on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Claude Code answered.
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
        None => None,
    };
    match Complaint::new(report, evidence).outcome() {
        Some(outcome) => outcome,
        None if ended_well && report.is_none() => Outcome::Success,
        None => Outcome::ContainerFailed,
    }
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
        let mut texts: Vec<&str> = report
            .and_then(|report| report.text.as_deref())
            .into_iter()
            .collect();
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
            (
                Outcome::RateLimited,
                self.has_status(|status| status == 429) || self.is_class("rate_limit"),
            ),
            (Outcome::ApiUnavailable, self.is_api_unavailable()),
            (
                Outcome::SessionCorrupted,
                self.has_status(|status| matches!(status, 400 | 409 | 422)),
            ),
        ];
        rows.into_iter()
            .find_map(|(outcome, fits)| fits.then_some(outcome))
    }

    fn is_prompt_too_long(&self) -> bool {
        self.report
            .is_some_and(|report| report.terminal_reason.as_deref() == Some("prompt_too_long"))
            || self.has_status(|status| status == 413)
            || self.begins_with("Prompt is too long")
    }

    /// The class `billing_error` is looked at whatever the status: a key without credit gets 400, and a fresh session does not help.
    fn is_authentication_failed(&self) -> bool {
        let billing = self
            .report
            .is_some_and(|report| report.class.as_deref() == Some("billing_error"));
        billing
            || self.has_status(|status| matches!(status, 401..=403))
            || self.is_class("authentication_failed")
    }

    fn is_api_unavailable(&self) -> bool {
        self.has_status(|status| status == 408 || (500..600).contains(&status))
            || self
                .report
                .is_some_and(|report| report.api_error.as_deref() == Some("connection_failed"))
            || self.begins_with("API Error: Connection")
    }

    fn begins_with(&self, words: &str) -> bool {
        self.texts.iter().any(|text| text.starts_with(words))
    }

    /// Whether the status of the report, or where there is none that of a text, is so.
    fn has_status(&self, fits: impl Fn(u16) -> bool) -> bool {
        match self.report.and_then(|report| report.api_error_status) {
            Some(status) => fits(status),
            None => self
                .texts
                .iter()
                .filter_map(|text| leading_status(text))
                .any(fits),
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
mod tests {
    use std::fs;
    use std::path::Path;

    use claude_output::{EventParser, ParsedLine, parse_event};
    use serde_json::{Value, json};

    use super::*;

    /// A run that ended by itself.
    struct Run {
        exit_code: i64,
        events: Vec<Value>,
        stdout: Vec<&'static str>,
        stderr: &'static str,
    }

    impl Run {
        fn outcome(&self, ended: Ended) -> Outcome {
            let events: Vec<_> = self
                .events
                .iter()
                .map(|event| parse_event(&event.to_string()).unwrap())
                .collect();
            let text_lines: Vec<_> = self.stdout.iter().map(|line| (*line).to_owned()).collect();
            classify(&Evidence {
                ended,
                exit_code: self.exit_code,
                events: &events,
                text_lines: &text_lines,
                stderr: self.stderr,
            })
        }
    }

    fn failed(fields: &Value) -> Run {
        run(1, vec![result(true, fields)], "")
    }

    fn run(exit_code: i64, events: Vec<Value>, stderr: &'static str) -> Run {
        Run {
            exit_code,
            events,
            stdout: vec![],
            stderr,
        }
    }

    /// As Claude Code reports it: an API error, too, has the subtype `success`.
    fn result(is_error: bool, fields: &Value) -> Value {
        let mut event =
            json!({"type": "result", "subtype": "success", "is_error": is_error, "session_id": "s"});
        let fields = fields.as_object().unwrap().clone();
        event.as_object_mut().unwrap().extend(fields);
        event
    }

    fn api_error(class: &str) -> Value {
        json!({"type": "assistant", "error": class, "is_api_error_message": true, "message": {"model": "<synthetic>", "content": []}})
    }

    fn said(text: &str) -> [Value; 3] {
        let block = json!({"type": "text", "text": text});
        [
            json!({"type": "assistant", "message": {"id": "m", "content": [block]}}),
            json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": text, "is_error": true}]}}),
            json!({"type": "system", "subtype": "informational", "content": text}),
        ]
    }

    const QUOTES: [&str; 4] = [
        "Prompt is too long",
        "API Error: 401 invalid x-api-key",
        "API Error: 400 bad",
        "API Error: Connection refused",
    ];

    #[test]
    fn statuses() {
        let cases = [
            (413, Outcome::PromptTooLong),
            (401, Outcome::AuthenticationFailed),
            (402, Outcome::AuthenticationFailed),
            (403, Outcome::AuthenticationFailed),
            (429, Outcome::RateLimited),
            (408, Outcome::ApiUnavailable),
            (500, Outcome::ApiUnavailable),
            (529, Outcome::ApiUnavailable),
            (599, Outcome::ApiUnavailable),
            (400, Outcome::SessionCorrupted),
            (409, Outcome::SessionCorrupted),
            (422, Outcome::SessionCorrupted),
            (404, Outcome::ContainerFailed),
            (600, Outcome::ContainerFailed),
            (65_535, Outcome::ContainerFailed),
        ];
        for (status, expected) in cases {
            let reported =
                failed(&json!({"terminal_reason": "api_error", "api_error_status": status, "result": "x"}));
            assert_eq!(reported.outcome(Ended::Itself), expected, "{status}");
            if status > 999 {
                continue;
            }
            let text = format!("API Error: {status} so it is");
            assert_eq!(
                failed(&json!({"result": text})).outcome(Ended::Itself),
                expected,
                "{text}"
            );
            let stderr: &'static str = format!("noise\r\n{text}\r\nnoise").leak();
            assert_eq!(
                run(1, vec![], stderr).outcome(Ended::Itself),
                expected,
                "{stderr}"
            );
            let stdout = Run {
                stdout: vec!["noise", text.leak()],
                ..run(1, vec![], "")
            };
            assert_eq!(stdout.outcome(Ended::Itself), expected, "text on stdout");
        }
    }

    #[test]
    fn other_reports() {
        let cases = [
            (
                json!({"terminal_reason": "prompt_too_long", "api_error_status": 400}),
                Outcome::PromptTooLong,
            ),
            (
                json!({"result": "Prompt is too long · the request is ~204712 tokens"}),
                Outcome::PromptTooLong,
            ),
            (json!({"errors": ["Prompt is too long"]}), Outcome::PromptTooLong),
            (
                json!({"terminal_reason": "image_error", "api_error_status": 413}),
                Outcome::PromptTooLong,
            ),
            (
                json!({"terminal_reason": "image_error", "api_error_status": 400}),
                Outcome::SessionCorrupted,
            ),
            (
                json!({"api_error": "connection_failed", "result": "API Error: Can't reach"}),
                Outcome::ApiUnavailable,
            ),
            (
                json!({"result": "API Error: Connection dropped"}),
                Outcome::ApiUnavailable,
            ),
            (
                json!({"subtype": "error_max_turns", "errors": ["Reached maximum number of turns (2)"]}),
                Outcome::ContainerFailed,
            ),
            (
                json!({"result": "API Error: API returned an empty or malformed response (HTTP 200)"}),
                Outcome::ContainerFailed,
            ),
            (
                json!({"result": "the log says: API Error: 401"}),
                Outcome::ContainerFailed,
            ),
            (json!({"result": "API Error: 4010"}), Outcome::ContainerFailed),
            (json!({"result": "API Error: 40"}), Outcome::ContainerFailed),
            (json!({"result": "API Error: 4é1"}), Outcome::ContainerFailed),
            (
                json!({"api_error_status": 500, "result": "API Error: 401"}),
                Outcome::ApiUnavailable,
            ),
            (json!({}), Outcome::ContainerFailed),
        ];
        for (fields, expected) in cases {
            assert_eq!(failed(&fields).outcome(Ended::Itself), expected, "{fields}");
        }
    }

    #[test]
    fn the_class_of_an_error_tells_what_its_status_does_not() {
        let cases = [
            (
                "billing_error",
                json!({"api_error_status": 400}),
                Outcome::AuthenticationFailed,
            ),
            (
                "authentication_failed",
                json!({"result": "Not logged in · Please run /login"}),
                Outcome::AuthenticationFailed,
            ),
            (
                "rate_limit",
                json!({"result": "You've hit your limit"}),
                Outcome::RateLimited,
            ),
            (
                "rate_limit",
                json!({"api_error_status": 500}),
                Outcome::ApiUnavailable,
            ),
            (
                "invalid_request",
                json!({"result": "flagged"}),
                Outcome::ContainerFailed,
            ),
        ];
        for (class, fields, expected) in cases {
            let run = run(1, vec![api_error(class), result(true, &fields)], "");
            assert_eq!(run.outcome(Ended::Itself), expected, "{class} {fields}");
        }
    }

    #[test]
    fn what_we_ended_is_so_whatever_was_said() {
        for run in [
            failed(&json!({"api_error_status": 401})),
            run(0, vec![result(false, &json!({}))], ""),
            run(137, vec![], ""),
        ] {
            assert_eq!(run.outcome(Ended::Timeout), Outcome::Timeout);
            assert_eq!(run.outcome(Ended::Stopped), Outcome::Stopped);
        }
        assert_eq!(
            run(0, vec![result(false, &json!({}))], "").outcome(Ended::OutputLimit),
            Outcome::ContainerFailed
        );
        assert_eq!(
            run(143, vec![], "").outcome(Ended::OutputLimit),
            Outcome::ContainerFailed
        );
    }

    #[test]
    fn success_is_exit_0_without_an_error_result() {
        let ok = || result(false, &json!({"result": "done", "terminal_reason": "completed"}));
        let bad = || result(true, &json!({"errors": ["x"]}));
        let cases = [
            (run(0, vec![ok()], ""), Outcome::Success),
            (run(0, vec![ok(), ok()], "a warning"), Outcome::Success),
            (run(0, vec![], ""), Outcome::Success),
            (run(0, vec![bad()], ""), Outcome::ContainerFailed),
            (run(0, vec![bad(), ok()], ""), Outcome::ContainerFailed),
            (run(1, vec![ok()], ""), Outcome::ContainerFailed),
            (run(137, vec![], ""), Outcome::ContainerFailed),
            (run(127, vec![], "claude: not found"), Outcome::ContainerFailed),
            (
                run(1, vec![], "Error: Input must be provided"),
                Outcome::ContainerFailed,
            ),
        ];
        for (run, expected) in cases {
            assert_eq!(
                run.outcome(Ended::Itself),
                expected,
                "{:?} {}",
                run.events,
                run.stderr
            );
        }
    }

    #[test]
    fn words_of_the_model_or_of_a_tool_do_not_count() {
        for quote in QUOTES {
            let mut events = said(quote).to_vec();
            assert_eq!(
                run(1, events.clone(), "").outcome(Ended::Itself),
                Outcome::ContainerFailed,
                "cut off: {quote}"
            );
            events.push(result(
                false,
                &json!({"result": quote, "errors": [quote], "api_error_status": 401}),
            ));
            assert_eq!(
                run(0, events.clone(), "").outcome(Ended::Itself),
                Outcome::Success,
                "{quote}"
            );
            assert_eq!(
                run(0, events.clone(), quote).outcome(Ended::Itself),
                Outcome::Success,
                "retried: {quote}"
            );
            assert_eq!(
                run(1, events.clone(), "").outcome(Ended::Itself),
                Outcome::ContainerFailed,
                "{quote}"
            );
            events.push(result(
                true,
                &json!({"terminal_reason": "api_error", "api_error_status": 429, "result": "x"}),
            ));
            assert_eq!(
                run(1, events.clone(), quote).outcome(Ended::Itself),
                Outcome::RateLimited,
                "noise: {quote}"
            );
        }
    }

    #[test]
    fn quotes_within_a_line_or_an_error_text_do_not_count() {
        for quote in QUOTES {
            let stderr: &'static str =
                format!("MCP server \"x\": {quote}\n  {quote}\n> {quote}\n[info] {quote}").leak();
            assert_eq!(
                run(1, vec![], stderr).outcome(Ended::Itself),
                Outcome::ContainerFailed,
                "{stderr}"
            );
            let text = format!("The tool failed:\n{quote}");
            assert_eq!(
                failed(&json!({"result": text})).outcome(Ended::Itself),
                Outcome::ContainerFailed,
                "{text}"
            );
            let json_line = Run {
                stdout: vec![format!("\"{quote}\"").leak()],
                ..run(1, vec![], "")
            };
            assert_eq!(json_line.outcome(Ended::Itself), Outcome::ContainerFailed);
        }
    }

    #[test]
    fn an_older_version_says_it_as_text_only() {
        let cases = [
            ("Prompt is too long", 0, Outcome::PromptTooLong),
            ("Prompt is too long", 1, Outcome::PromptTooLong),
            (
                r#"API Error: 400 {"type":"error","error":{"type":"invalid_request_error"}}"#,
                1,
                Outcome::SessionCorrupted,
            ),
            (r#"API Error: 529 {"type":"error"}"#, 1, Outcome::ApiUnavailable),
            ("API Error: Connection error.", 1, Outcome::ApiUnavailable),
            ("Hello", 0, Outcome::Success),
        ];
        for (line, exit_code, expected) in cases {
            let run = Run {
                stdout: vec![line],
                ..run(exit_code, vec![], "")
            };
            assert_eq!(run.outcome(Ended::Itself), expected, "{line}");
        }
    }

    #[test]
    fn the_json_is_the_name() {
        let all = [
            Outcome::Success,
            Outcome::Timeout,
            Outcome::Stopped,
            Outcome::PromptTooLong,
            Outcome::AuthenticationFailed,
            Outcome::RateLimited,
            Outcome::ApiUnavailable,
            Outcome::SessionCorrupted,
            Outcome::ContainerFailed,
        ];
        for outcome in all {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }

    /// What the real program printed, recorded by `cargo xtask fixtures`.
    #[test]
    fn recorded_runs() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../claude-output/fixtures");
        let record: Value = serde_json::from_slice(&fs::read(folder.join("runs.json")).unwrap()).unwrap();
        for (name, run) in record["runs"].as_object().unwrap() {
            let output = fs::read(folder.join(name).with_extension("jsonl")).unwrap();
            let mut parser = EventParser::new();
            let lines = parser.push(&output);
            let events: Vec<_> = lines.into_iter().filter_map(ParsedLine::into_event).collect();
            let outcome = classify(&Evidence {
                ended: Ended::Itself,
                // A run that was killed has no exit code of its own.
                exit_code: run["exit_code"].as_i64().unwrap_or(137),
                events: &events,
                text_lines: &[],
                stderr: run["stderr"].as_str().unwrap(),
            });
            assert_eq!(outcome, expected_of(name), "{name}");
        }
    }

    fn expected_of(name: &str) -> Outcome {
        match name {
            "background" | "empty" | "quoted-error" | "resume" | "retry" | "subagent" | "text"
            | "thinking" | "tool-use" => Outcome::Success,
            "prompt-too-long" | "request-too-large" => Outcome::PromptTooLong,
            "forbidden" | "no-credit" | "not-logged-in" | "payment-required" | "unauthorized" => {
                Outcome::AuthenticationFailed
            }
            "rate-limit" => Outcome::RateLimited,
            "connection-refused" | "drop" | "drop-at-once" | "error-mid-stream" | "gateway-timeout"
            | "overloaded" | "request-timeout" | "server-error" | "unavailable" => Outcome::ApiUnavailable,
            "conflict" | "image-error" | "session-corrupted" | "unprocessable" => Outcome::SessionCorrupted,
            "killed" | "max-turns" | "not-found" | "not-json" | "refusal" | "resume-unknown" | "usage" => {
                Outcome::ContainerFailed
            }
            _ => panic!("say what `{name}` comes to"),
        }
    }
}
