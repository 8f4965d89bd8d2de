//! Every way in which an execution ends, and the outcome that a caller sees.

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
    resumes: bool,
}

impl Run {
    fn outcome(&self, ended: Ended) -> Outcome {
        self.judged(ended).0
    }

    /// The outcome and the error summary.
    fn judged(&self, ended: Ended) -> (Outcome, Option<String>) {
        let events: Vec<_> =
            self.events.iter().map(|event| parse_event(&event.to_string()).unwrap()).collect();
        let text_lines: Vec<_> = self.stdout.iter().map(|line| (*line).to_owned()).collect();
        let evidence = Evidence {
            ended,
            exit_code: self.exit_code,
            oom_killed: false,
            resumes: self.resumes,
            events: &events,
            text_lines: &text_lines,
            stderr: self.stderr,
        };
        let outcome = evidence.outcome();
        (outcome, evidence.error_summary(outcome))
    }

    fn resumed(self) -> Self {
        Self { resumes: true, ..self }
    }
}

fn failed(fields: &Value) -> Run {
    run(1, vec![result(true, fields)], "")
}

fn run(exit_code: i64, events: Vec<Value>, stderr: &'static str) -> Run {
    Run { exit_code, events, stdout: vec![], stderr, resumes: false }
}

/// A result as Claude Code reports it: even an API error has the subtype `success`.
fn result(is_error: bool, fields: &Value) -> Value {
    let mut event = json!({"type": "result", "subtype": "success", "is_error": is_error, "session_id": "s"});
    let fields = fields.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(fields);
    event
}

fn api_error(class: &str) -> Value {
    json!({"type": "assistant", "error": class, "is_api_error_message": true, "message": {"model": "<synthetic>", "content": []}})
}

fn messages_with(text: &str) -> [Value; 3] {
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
fn status_decides_the_outcome() {
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
        (404, Outcome::InvalidRequest),
        (600, Outcome::ContainerFailed),
        (65_535, Outcome::ContainerFailed),
    ];
    for (status, expected) in cases {
        let reported =
            failed(&json!({"terminal_reason": "api_error", "api_error_status": status, "result": "x"}))
                .resumed();
        assert_eq!(reported.outcome(Ended::Itself), expected, "{status}");
        if status > 999 {
            continue;
        }
        let text = format!("API Error: {status} so it is");
        assert_eq!(failed(&json!({"result": text})).resumed().outcome(Ended::Itself), expected, "{text}");
        let stderr: &'static str = format!("noise\r\n{text}\r\nnoise").leak();
        assert_eq!(run(1, vec![], stderr).resumed().outcome(Ended::Itself), expected, "{stderr}");
        let stdout = Run { stdout: vec!["noise", text.leak()], ..run(1, vec![], "") }.resumed();
        assert_eq!(stdout.outcome(Ended::Itself), expected, "text on stdout");
    }
}

#[test]
fn other_reports_have_their_outcome() {
    let cases = [
        (json!({"terminal_reason": "prompt_too_long", "api_error_status": 400}), Outcome::PromptTooLong),
        (json!({"result": "Prompt is too long · the request is ~204712 tokens"}), Outcome::PromptTooLong),
        (json!({"errors": ["Prompt is too long"]}), Outcome::PromptTooLong),
        (json!({"terminal_reason": "image_error", "api_error_status": 413}), Outcome::PromptTooLong),
        (json!({"terminal_reason": "image_error", "api_error_status": 400}), Outcome::SessionCorrupted),
        (
            json!({"api_error": "connection_failed", "result": "API Error: Can't reach"}),
            Outcome::ApiUnavailable,
        ),
        (json!({"result": "API Error: Connection dropped"}), Outcome::ApiUnavailable),
        (
            json!({"subtype": "error_max_turns", "errors": ["Reached maximum number of turns (2)"]}),
            Outcome::TurnLimitReached,
        ),
        (
            json!({"result": "API Error: API returned an empty or malformed response (HTTP 200)"}),
            Outcome::ApiUnavailable,
        ),
        (json!({"result": "the log says: API Error: 401"}), Outcome::ContainerFailed),
        (json!({"result": "API Error: 4010"}), Outcome::ContainerFailed),
        (json!({"result": "API Error: 40"}), Outcome::ContainerFailed),
        (json!({"result": "API Error: 4é1"}), Outcome::ContainerFailed),
        (json!({"api_error_status": 500, "result": "API Error: 401"}), Outcome::ApiUnavailable),
        (json!({}), Outcome::ContainerFailed),
    ];
    for (fields, expected) in cases {
        assert_eq!(failed(&fields).outcome(Ended::Itself), expected, "{fields}");
    }
}

#[test]
fn error_class_decides_if_the_status_does_not() {
    let cases = [
        ("billing_error", json!({"api_error_status": 400}), Outcome::AuthenticationFailed),
        (
            "authentication_failed",
            json!({"result": "Not logged in · Please run /login"}),
            Outcome::AuthenticationFailed,
        ),
        ("rate_limit", json!({"result": "You've hit your limit"}), Outcome::RateLimited),
        ("rate_limit", json!({"api_error_status": 500}), Outcome::ApiUnavailable),
        ("invalid_request", json!({"result": "flagged"}), Outcome::InvalidRequest),
        (
            "model_not_found",
            json!({"api_error_status": 404, "result": "There's an issue"}),
            Outcome::InvalidRequest,
        ),
        ("server_error", json!({}), Outcome::ApiUnavailable),
    ];
    for (class, fields, expected) in cases {
        let run = run(1, vec![api_error(class), result(true, &fields)], "");
        assert_eq!(run.outcome(Ended::Itself), expected, "{class} {fields}");
    }
}

#[test]
fn end_by_the_sandbox_outranks_reports() {
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
    assert_eq!(run(143, vec![], "").outcome(Ended::OutputLimit), Outcome::ContainerFailed);
}

#[test]
fn success_requires_exit_0_and_a_result_without_an_error() {
    let ok = || result(false, &json!({"result": "done", "terminal_reason": "completed"}));
    let bad = || result(true, &json!({"errors": ["x"]}));
    let cases = [
        (run(0, vec![ok()], ""), Outcome::Success),
        (run(0, vec![ok(), ok()], "a warning"), Outcome::Success),
        (run(0, vec![], ""), Outcome::ContainerFailed),
        (run(0, vec![bad()], ""), Outcome::ContainerFailed),
        (run(0, vec![bad(), ok()], ""), Outcome::Success),
        (run(0, vec![ok(), bad()], ""), Outcome::ContainerFailed),
        (run(1, vec![ok()], ""), Outcome::ContainerFailed),
        (run(137, vec![], ""), Outcome::Killed),
        (run(137, vec![ok()], ""), Outcome::Killed),
        (run(255, vec![], ""), Outcome::ContainerFailed),
        (run(127, vec![], "claude: not found"), Outcome::ContainerFailed),
        (run(1, vec![], "Error: Input must be provided"), Outcome::ContainerFailed),
    ];
    for (run, expected) in cases {
        assert_eq!(run.outcome(Ended::Itself), expected, "{:?} {}", run.events, run.stderr);
    }
}

#[test]
fn text_of_the_model_or_of_a_tool_is_ignored() {
    for quote in QUOTES {
        let mut events = messages_with(quote).to_vec();
        assert_eq!(
            run(1, events.clone(), "").outcome(Ended::Itself),
            Outcome::ContainerFailed,
            "cut off: {quote}"
        );
        events.push(result(false, &json!({"result": quote, "errors": [quote], "api_error_status": 401})));
        assert_eq!(run(0, events.clone(), "").outcome(Ended::Itself), Outcome::Success, "{quote}");
        assert_eq!(
            run(0, events.clone(), quote).outcome(Ended::Itself),
            Outcome::Success,
            "retried: {quote}"
        );
        assert_eq!(run(1, events.clone(), "").outcome(Ended::Itself), Outcome::ContainerFailed, "{quote}");
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
fn phrase_within_a_line_or_an_error_text_is_ignored() {
    for quote in QUOTES {
        let stderr: &'static str =
            format!("MCP server \"x\": {quote}\n  {quote}\n> {quote}\n[info] {quote}").leak();
        assert_eq!(run(1, vec![], stderr).outcome(Ended::Itself), Outcome::ContainerFailed, "{stderr}");
        let text = format!("The tool failed:\n{quote}");
        assert_eq!(
            failed(&json!({"result": text})).outcome(Ended::Itself),
            Outcome::ContainerFailed,
            "{text}"
        );
        let json_line = Run { stdout: vec![format!("\"{quote}\"").leak()], ..run(1, vec![], "") };
        assert_eq!(json_line.outcome(Ended::Itself), Outcome::ContainerFailed);
    }
}

#[test]
fn text_of_an_older_version_is_classified() {
    let cases = [
        ("Prompt is too long", 0, Outcome::PromptTooLong),
        ("Prompt is too long", 1, Outcome::PromptTooLong),
        (
            r#"API Error: 400 {"type":"error","error":{"type":"invalid_request_error"}}"#,
            1,
            Outcome::InvalidRequest,
        ),
        (r#"API Error: 529 {"type":"error"}"#, 1, Outcome::ApiUnavailable),
        ("API Error: Connection error.", 1, Outcome::ApiUnavailable),
        ("Hello", 0, Outcome::ContainerFailed),
    ];
    for (line, exit_code, expected) in cases {
        let run = Run { stdout: vec![line], ..run(exit_code, vec![], "") };
        assert_eq!(run.outcome(Ended::Itself), expected, "{line}");
    }
}

#[test]
fn only_a_refused_conversation_is_a_corrupted_session() {
    let refused = |text: &str| {
        failed(&json!({"terminal_reason": "api_error", "api_error_status": 400, "result": text}))
    };
    let spoke = |run: Run| Run { events: messages_with("hi").into_iter().chain(run.events).collect(), ..run };
    let cases = [
        (refused("API Error: 400 no"), Outcome::InvalidRequest),
        (refused("API Error: 400 no").resumed(), Outcome::SessionCorrupted),
        (spoke(refused("API Error: 400 no")), Outcome::SessionCorrupted),
        (refused("API Error: 400 max_tokens: no").resumed(), Outcome::InvalidRequest),
        (refused("API Error: 400 tools.0.name: no").resumed(), Outcome::InvalidRequest),
        (refused("API Error: 400 messages.0.content: no"), Outcome::SessionCorrupted),
        (refused("API Error: 400 messages: no"), Outcome::SessionCorrupted),
        (refused("API Error: 400 so be it: no"), Outcome::InvalidRequest),
    ];
    for (run, expected) in cases {
        assert_eq!(run.outcome(Ended::Itself), expected, "{:?}", run.events);
    }
}

#[test]
fn refusal_by_the_proxy_is_not_an_authentication_failure() {
    let refused = |id: &str, status: u16| {
        let mut message = api_error("authentication_failed");
        message["request_id"] = json!(id);
        let result = result(
            true,
            &json!({"terminal_reason": "api_error", "api_error_status": status, "result": "Failed to authenticate. API Error: 403 no"}),
        );
        run(1, vec![message, result], "")
    };
    for (id, status, expected) in [
        ("sandbox-blocked-host", 403, Outcome::BlockedByPolicy),
        ("sandbox-blocked-framing", 400, Outcome::BlockedByPolicy),
        ("sandbox-blocked-budget", 403, Outcome::BudgetExhausted),
        ("sandbox-blocked-limit", 503, Outcome::ApiUnavailable),
        ("req_sandbox-blocked-host", 403, Outcome::AuthenticationFailed),
        ("sandbox-blocked-host", 200, Outcome::ContainerFailed),
    ] {
        assert_eq!(refused(id, status).outcome(Ended::Itself), expected, "{id} {status}");
    }
    let older = r#"API Error: 403 {"error":"blocked_by_network_allowlist","message":"x"}"#;
    assert_eq!(
        Run { stdout: vec![older], ..run(1, vec![], "") }.outcome(Ended::Itself),
        Outcome::BlockedByPolicy
    );
    let quoted = run(1, messages_with(older).to_vec(), "");
    assert_eq!(quoted.outcome(Ended::Itself), Outcome::ContainerFailed);
}

fn retry(status: u16, class: &str) -> Value {
    json!({"type": "system", "subtype": "api_retry", "error_status": status, "error": class})
}

#[test]
fn limit_during_repeated_api_errors_has_their_outcome() {
    let noise = "Claude configuration file not found at: /root/.claude.json";
    let stalled = Ended::Stalled(Duration::from_secs(2));
    for (status, class, expected) in [
        (429, "rate_limit", Outcome::RateLimited),
        (401, "authentication_failed", Outcome::AuthenticationFailed),
        (529, "overloaded", Outcome::ApiUnavailable),
    ] {
        let once = run(143, vec![retry(status, class)], noise);
        assert_eq!(once.outcome(Ended::Timeout), Outcome::Timeout);
        let again = run(143, vec![retry(status, class), retry(status, class)], noise);
        assert_eq!((again.outcome(Ended::Timeout), again.outcome(stalled)), (expected, expected));
        assert_eq!(again.outcome(Ended::Stopped), Outcome::Stopped);
        let summary = again.judged(Ended::Timeout).1.unwrap();
        assert_eq!(
            summary,
            format!(
                "it was stopped at its time limit while it tried the API again: {status} {class}, 2 times in a row"
            )
        );
        let mut events = again.events.clone();
        events.extend(messages_with("an answer"));
        assert_eq!(run(143, events, noise).outcome(Ended::Timeout), Outcome::Timeout, "it got an answer");
    }
    assert_eq!(
        run(143, vec![], noise).judged(stalled).1.unwrap(),
        "it was stopped: it had reported nothing for 2 s"
    );
}

#[test]
fn error_reported_before_a_cut_off_counts() {
    let mut message = api_error("authentication_failed");
    message["message"]["content"] = json!("Invalid API key · Please run /login");
    let cut = run(1, vec![message], "noise");
    let expected = (Outcome::AuthenticationFailed, Some("Invalid API key · Please run /login".to_owned()));
    assert_eq!(cut.judged(Ended::Itself), expected);
}

#[test]
fn every_failure_has_a_summary() {
    let printed = |line: &'static str| Run { stdout: vec![line], ..run(1, vec![], "") };
    for (run, ended, expected) in [
        (run(1, vec![result(true, &json!({}))], ""), Ended::Itself, "it ended with exit code 1"),
        (run(0, vec![], ""), Ended::Itself, "it ended with exit code 0 and without a result"),
        (run(1, vec![], "a\nb"), Ended::Itself, "a\nb"),
        (run(137, vec![], ""), Ended::Itself, "it was killed by SIGKILL before it had a result"),
        (run(139, vec![], "oh"), Ended::Itself, "it was killed by SIGSEGV before it had a result: oh"),
        (
            run(137, vec![result(true, &json!({"result": "first"})), result(false, &json!({}))], ""),
            Ended::Itself,
            "it was killed by SIGKILL after its result",
        ),
        (
            run(162, vec![result(false, &json!({}))], ""),
            Ended::Itself,
            "it was killed by signal 34 after its result",
        ),
        (printed("fatal: x"), Ended::Itself, "it ended with exit code 1 and without a result: fatal: x"),
        (run(143, vec![], ""), Ended::Stopped, "it was stopped"),
        (run(143, vec![], "noise"), Ended::Timeout, "it was stopped at its time limit"),
    ] {
        assert_eq!(run.judged(ended).1.as_deref(), Some(expected), "{expected}");
    }
}

#[test]
fn stop_after_the_result_keeps_its_outcome() {
    let ok = || result(false, &json!({}));
    let limit = result(true, &json!({"api_error_status": 429}));
    for exit_code in [0, 137, 143] {
        assert_eq!(run(exit_code, vec![ok()], "").judged(Ended::Answered), (Outcome::Success, None));
        assert_eq!(run(exit_code, vec![limit.clone()], "").outcome(Ended::Answered), Outcome::RateLimited);
    }
}

const ALL: [Outcome; 15] = [
    Outcome::Success,
    Outcome::Timeout,
    Outcome::Stopped,
    Outcome::Stalled,
    Outcome::PromptTooLong,
    Outcome::AuthenticationFailed,
    Outcome::RateLimited,
    Outcome::ApiUnavailable,
    Outcome::SessionCorrupted,
    Outcome::InvalidRequest,
    Outcome::BlockedByPolicy,
    Outcome::TurnLimitReached,
    Outcome::BudgetExhausted,
    Outcome::Killed,
    Outcome::ContainerFailed,
];

#[test]
fn json_form_is_the_name() {
    for outcome in ALL {
        assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
    }
}

#[test]
fn documented_table_matches_the_code() {
    let document = include_str!("../../outcomes.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut left = ALL.to_vec();
    for row in rows {
        let (name, cells) = row.split_once("` |").unwrap();
        let place = left.iter().position(|outcome| outcome.as_str() == name);
        let outcome = left.remove(place.unwrap_or_else(|| panic!("no outcome `{name}`, or twice")));
        let texts = cells.split('|').nth(1).unwrap();
        for text in texts.split('`').skip(1).step_by(2) {
            let run = Run { stdout: vec![text], ..run(1, vec![], "") };
            assert_eq!(run.outcome(Ended::Itself), outcome, "{text}");
        }
    }
    assert_eq!(left, [], "not in the table");
}

/// Output of the real program, recorded by `cargo xtask fixtures`.
#[test]
fn recorded_runs_have_their_outcome() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../claude-output/fixtures");
    let record: Value = serde_json::from_slice(&fs::read(folder.join("runs.json")).unwrap()).unwrap();
    for (name, run) in record["runs"].as_object().unwrap() {
        let output = fs::read(folder.join(name).with_extension("jsonl")).unwrap();
        let mut parser = EventParser::new();
        let lines = parser.push(&output);
        let events: Vec<_> = lines.into_iter().filter_map(ParsedLine::into_event).collect();
        let evidence = Evidence {
            // A run without an exit code was killed: as at a time limit, if it was retrying.
            ended: if name.ends_with("-retries") { Ended::Timeout } else { Ended::Itself },
            exit_code: run["exit_code"].as_i64().unwrap_or(137),
            oom_killed: false,
            resumes: !run["resumes"].is_null(),
            events: &events,
            text_lines: &[],
            stderr: run["stderr"].as_str().unwrap(),
        };
        assert_eq!(evidence.outcome(), expected_of(name), "{name}");
    }
}

fn expected_of(name: &str) -> Outcome {
    match name {
        "background" | "empty" | "quoted-error" | "resume" | "retry" | "subagent" | "text" | "thinking"
        | "tool-use" => Outcome::Success,
        "prompt-too-long" | "request-too-large" => Outcome::PromptTooLong,
        "forbidden" | "no-credit" | "not-logged-in" | "payment-required" | "unauthorized" => {
            Outcome::AuthenticationFailed
        }
        "rate-limit" | "rate-limit-retries" => Outcome::RateLimited,
        "connection-refused" | "drop" | "drop-at-once" | "error-mid-stream" | "gateway-timeout"
        | "not-json" | "overloaded" | "request-timeout" | "server-error" | "unavailable" => {
            Outcome::ApiUnavailable
        }
        "image-error" | "session-corrupted" => Outcome::SessionCorrupted,
        "conflict" | "not-found" | "refusal" | "unprocessable" => Outcome::InvalidRequest,
        "max-turns" => Outcome::TurnLimitReached,
        "max-budget" => Outcome::BudgetExhausted,
        "killed" => Outcome::Killed,
        "resume-unknown" | "usage" => Outcome::ContainerFailed,
        _ => panic!("no expected outcome for `{name}`"),
    }
}
