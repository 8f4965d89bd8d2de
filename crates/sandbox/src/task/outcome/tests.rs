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
}

impl Run {
    fn outcome(&self, ended: Ended) -> Outcome {
        let events: Vec<_> =
            self.events.iter().map(|event| parse_event(&event.to_string()).unwrap()).collect();
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
    Run { exit_code, events, stdout: vec![], stderr }
}

/// As Claude Code reports it: an API error, too, has the subtype `success`.
fn result(is_error: bool, fields: &Value) -> Value {
    let mut event = json!({"type": "result", "subtype": "success", "is_error": is_error, "session_id": "s"});
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
        assert_eq!(failed(&json!({"result": text})).outcome(Ended::Itself), expected, "{text}");
        let stderr: &'static str = format!("noise\r\n{text}\r\nnoise").leak();
        assert_eq!(run(1, vec![], stderr).outcome(Ended::Itself), expected, "{stderr}");
        let stdout = Run { stdout: vec!["noise", text.leak()], ..run(1, vec![], "") };
        assert_eq!(stdout.outcome(Ended::Itself), expected, "text on stdout");
    }
}

#[test]
fn other_reports() {
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
            Outcome::ContainerFailed,
        ),
        (
            json!({"result": "API Error: API returned an empty or malformed response (HTTP 200)"}),
            Outcome::ContainerFailed,
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
fn the_class_of_an_error_says_what_its_status_does_not() {
    let cases = [
        ("billing_error", json!({"api_error_status": 400}), Outcome::AuthenticationFailed),
        (
            "authentication_failed",
            json!({"result": "Not logged in · Please run /login"}),
            Outcome::AuthenticationFailed,
        ),
        ("rate_limit", json!({"result": "You've hit your limit"}), Outcome::RateLimited),
        ("rate_limit", json!({"api_error_status": 500}), Outcome::ApiUnavailable),
        ("invalid_request", json!({"result": "flagged"}), Outcome::ContainerFailed),
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
    assert_eq!(run(143, vec![], "").outcome(Ended::OutputLimit), Outcome::ContainerFailed);
}

#[test]
fn success_is_exit_0_and_a_result_without_an_error() {
    let ok = || result(false, &json!({"result": "done", "terminal_reason": "completed"}));
    let bad = || result(true, &json!({"errors": ["x"]}));
    let cases = [
        (run(0, vec![ok()], ""), Outcome::Success),
        (run(0, vec![ok(), ok()], "a warning"), Outcome::Success),
        (run(0, vec![], ""), Outcome::ContainerFailed),
        (run(0, vec![bad()], ""), Outcome::ContainerFailed),
        (run(0, vec![bad(), ok()], ""), Outcome::ContainerFailed),
        (run(1, vec![ok()], ""), Outcome::ContainerFailed),
        (run(137, vec![], ""), Outcome::ContainerFailed),
        (run(127, vec![], "claude: not found"), Outcome::ContainerFailed),
        (run(1, vec![], "Error: Input must be provided"), Outcome::ContainerFailed),
    ];
    for (run, expected) in cases {
        assert_eq!(run.outcome(Ended::Itself), expected, "{:?} {}", run.events, run.stderr);
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
fn quotes_within_a_line_or_an_error_text_do_not_count() {
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
        ("Hello", 0, Outcome::ContainerFailed),
    ];
    for (line, exit_code, expected) in cases {
        let run = Run { stdout: vec![line], ..run(exit_code, vec![], "") };
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
        "background" | "empty" | "quoted-error" | "resume" | "retry" | "subagent" | "text" | "thinking"
        | "tool-use" => Outcome::Success,
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
