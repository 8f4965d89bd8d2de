//! Parsing real runs of Claude Code. `cargo xtask fixtures` records them.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "clippy takes what several tests share for code that is not a test"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use claude_output::ContentBlock;
use claude_output::EventKind;
use claude_output::EventParser;
use claude_output::MessageEvent;
use claude_output::ParsedLine;
use claude_output::ResultError;
use claude_output::StreamEvent;
use claude_output::extract_api_error;
use claude_output::extract_error_summary;
use claude_output::extract_response_text;
use claude_output::extract_result_summary;
use claude_output::extract_session_id;
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn events(name: &str) -> Vec<StreamEvent> {
    let bytes = fs::read(folder().join(name).with_extension("jsonl")).unwrap();
    let mut parser = EventParser::new();
    let mut lines: Vec<_> = bytes.chunks(7).flat_map(|piece| parser.push(piece)).collect();
    lines.extend(parser.finish());
    lines
        .into_iter()
        .map(|line| match line {
            ParsedLine::Event(event) => event,
            ParsedLine::Text(text) => panic!("{name} has a line that is not an event: {text}"),
        })
        .collect()
}

/// How the recorded run ended: `exit_code` and `stderr`.
fn record(name: &str) -> Value {
    let text = fs::read_to_string(folder().join("runs.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    document["runs"][name].clone()
}

/// The report of an API error: terminal reason, status, Claude Code's name for it, its class, the
/// beginning of its text.
type Reported = (&'static str, Option<u16>, Option<&'static str>, &'static str, &'static str);

/// Every run that ended with an API error.
const API_ERRORS: &[(&str, Reported)] = &[
    ("prompt-too-long", ("prompt_too_long", Some(400), None, "invalid_request", "Prompt is too long")),
    ("request-too-large", ("image_error", Some(413), None, "invalid_request", "Request too large")),
    ("unauthorized", ("api_error", Some(401), None, "authentication_failed", "Invalid API key")),
    ("payment-required", ("api_error", Some(402), None, "unknown", "API Error: 402")),
    (
        "forbidden",
        ("api_error", Some(403), None, "authentication_failed", "Failed to authenticate. API Error: 403"),
    ),
    ("no-credit", ("api_error", Some(400), None, "billing_error", "Credit balance is too low")),
    ("not-logged-in", ("api_error", None, None, "authentication_failed", "Not logged in")),
    ("rate-limit", ("api_error", Some(429), None, "rate_limit", "API Error: Request rejected (429)")),
    ("request-timeout", ("api_error", Some(408), None, "unknown", "API Error: 408")),
    ("server-error", ("api_error", Some(500), None, "server_error", "API Error: 500")),
    ("unavailable", ("api_error", Some(503), None, "server_error", "API Error: 503")),
    ("gateway-timeout", ("api_error", Some(504), None, "server_error", "API Error: 504")),
    ("overloaded", ("api_error", Some(529), None, "server_error", "API Error: 529")),
    ("error-mid-stream", ("api_error", Some(529), None, "server_error", "API Error: 529")),
    (
        "connection-refused",
        ("api_error", None, Some("connection_failed"), "server_error", "API Error: Connection refused"),
    ),
    (
        "drop",
        (
            "api_error",
            None,
            Some("connection_failed"),
            "server_error",
            "API Error: Connection to the API was lost",
        ),
    ),
    (
        "drop-at-once",
        (
            "api_error",
            None,
            Some("connection_failed"),
            "server_error",
            "API Error: Connection to the API was lost",
        ),
    ),
    (
        "session-corrupted",
        ("api_error", Some(400), Some("tool_history_mismatch"), "invalid_request", "API Error: 400"),
    ),
    ("image-error", ("image_error", Some(400), None, "invalid_request", "Image was too large")),
    ("conflict", ("api_error", Some(409), None, "unknown", "API Error: 409")),
    ("unprocessable", ("api_error", Some(422), None, "unknown", "API Error: 422")),
    (
        "not-found",
        ("api_error", Some(404), None, "model_not_found", "There's an issue with the selected model"),
    ),
    (
        "not-json",
        ("api_error", None, None, "unknown", "API Error: API returned an empty or malformed response"),
    ),
    ("refusal", ("api_error", None, None, "invalid_request", "API Error: ")),
];

/// Every run that succeeded, with the text of its reply.
const SUCCESSES: &[(&str, &str)] = &[
    ("text", "This is turn 1. You said: \"Hello.\"."),
    ("resume", "This is turn 2. You said: \"Hello.\", then \"And again.\"."),
    ("retry", "This is turn 1. You said: \"Please scenario:overloaded-once now.\"."),
    ("thinking", "This is turn 1. You said: \"Please scenario:thinking now.\"."),
    ("tool-use", "The tool printed: output of the tool"),
    ("subagent", "The subagent was called."),
    ("background", "The subagent was called.\n\nThe subagent was called."),
    ("quoted-error", "Prompt is too long. API Error: 401 invalid x-api-key\nThat is what the log says."),
    ("empty", ""),
];

/// The runs that ended in another way; each has its own test.
const OTHERS: &[&str] =
    &["killed", "max-budget", "max-turns", "rate-limit-retries", "resume-unknown", "usage"];

#[test]
fn recording_is_in_one_table() {
    let recorded: BTreeSet<_> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let expected: BTreeSet<_> = API_ERRORS
        .iter()
        .map(|(name, _)| *name)
        .chain(SUCCESSES.iter().map(|(name, _)| *name))
        .chain(OTHERS.iter().copied())
        .map(str::to_owned)
        .collect();
    assert_eq!(recorded, expected);
}

#[test]
fn recorded_line_is_a_known_event_that_round_trips() {
    for (name, _) in SUCCESSES {
        for event in events(name) {
            assert_ne!(event.kind(), &EventKind::Unknown, "{name}: {event:?}");
            let written = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<StreamEvent>(&written).unwrap(), event, "{name}");
        }
    }
}

#[test]
fn api_errors_are_reported_by_result_and_class() {
    for (name, (reason, status, api_error, class, text)) in API_ERRORS {
        let events = events(name);
        let summary = extract_result_summary(&events).unwrap();
        let error = summary.error.unwrap();
        assert_eq!(error.subtype.as_deref(), Some("success"), "{name}");
        assert_eq!(error.terminal_reason.as_deref(), Some(*reason), "{name}");
        assert_eq!(error.api_error_status, *status, "{name}");
        assert_eq!(error.api_error.as_deref(), *api_error, "{name}");
        assert_eq!(error.class.as_deref(), Some(*class), "{name}");
        assert!(error.text.as_deref().unwrap().starts_with(text), "{name}: {error:?}");
        assert_eq!(extract_error_summary(&events, "noise"), error.text, "{name}");
        assert_eq!(record(name)["exit_code"], 1, "{name}");
        assert_eq!(record(name)["stderr"], "", "{name}");
    }
}

#[test]
fn successes_have_a_reply_a_session_and_usage() {
    for (name, text) in SUCCESSES {
        let events = events(name);
        let summary = extract_result_summary(&events).unwrap();
        assert_eq!(summary.error, None, "{name}");
        assert_eq!(extract_response_text(&events), *text, "{name}");
        assert_eq!(summary.session_id.as_deref(), extract_session_id(&events), "{name}");
        assert!(summary.session_id.is_some() && summary.num_turns >= 1 && summary.duration_ms > 0, "{name}");
        assert!(summary.total_cost_usd.unwrap() > 0.0, "{name}");
        let usage = summary.usage.unwrap();
        assert_eq!(usage.cache_read_input_tokens % 9000, 0, "{name}");
        assert!(usage.output_tokens >= 42 && usage.extra.contains_key("service_tier"), "{name}");
        assert_eq!(extract_error_summary(&events, ""), None, "{name}");
        assert_eq!(record(name)["exit_code"], 0, "{name}");
    }
}

#[test]
fn several_results_are_summed() {
    let events = events("background");
    let durations: Vec<_> = events.iter().filter_map(|event| event.as_result()?.duration_ms).collect();
    assert_eq!(durations.len(), 2);
    let summary = extract_result_summary(&events).unwrap();
    assert_eq!(summary.duration_ms, durations.iter().sum::<u64>());
    assert_eq!(summary.num_turns, 3);
}

#[test]
fn killed_run_has_its_session_and_the_text_so_far() {
    let events = events("killed");
    assert_eq!(extract_result_summary(&events), None);
    assert!(extract_session_id(&events).is_some());
    assert_eq!(extract_response_text(&events), "This will take a while.");
    assert_eq!(record("killed")["exit_code"], Value::Null);
}

#[test]
fn claude_codes_own_limits_are_errors_without_a_class() {
    let summary = extract_result_summary(&events("max-turns")).unwrap();
    let error = summary.error.unwrap();
    assert_eq!(error.subtype.as_deref(), Some("error_max_turns"));
    assert_eq!(error.terminal_reason.as_deref(), Some("max_turns"));
    assert_eq!((error.api_error_status, error.class), (None, None));
    assert_eq!(error.text.as_deref(), Some("Reached maximum number of turns (2)"));
    assert_eq!(record("max-turns")["exit_code"], 1);
}

#[test]
fn exceeded_budget_is_an_error_without_a_class() {
    let error = extract_result_summary(&events("max-budget")).unwrap().error.unwrap();
    assert_eq!(error.subtype.as_deref(), Some("error_max_budget_usd"));
    assert_eq!(error.terminal_reason.as_deref(), Some("budget_exhausted"));
    assert_eq!(error.text.as_deref(), Some("Reached maximum budget ($0.001)"));
}

#[test]
fn api_error_is_reported_during_retries() {
    let events = events("rate-limit-retries");
    assert_eq!(extract_result_summary(&events), None);
    let error = extract_api_error(&events).unwrap();
    assert_eq!((error.status, error.class.as_deref()), (Some(429), Some("rate_limit")));
    assert_eq!((error.in_a_row, error.is_unresolved), (3, true));
    let retries = events.iter().filter_map(|event| match event.kind() {
        EventKind::System(system) => system.retry.as_ref(),
        _ => None,
    });
    let attempts: Vec<_> = retries.map(|retry| (retry.attempt, retry.max_retries)).collect();
    assert_eq!(attempts, [(Some(1), Some(10)), (Some(2), Some(10)), (Some(3), Some(10))]);
}

#[test]
fn resolved_api_error_is_marked_as_resolved() {
    let error = extract_api_error(&events("retry")).unwrap();
    assert_eq!((error.status, error.in_a_row, error.is_unresolved), (Some(529), 1, false));
    let error = extract_api_error(&events("forbidden")).unwrap();
    assert!(error.is_unresolved && error.request_id.is_some() && error.text.is_some(), "{error:?}");
    assert_eq!(extract_api_error(&events("text")), None);
}

#[test]
fn unknown_session_is_reported_by_a_result_alone() {
    let events = events("resume-unknown");
    let text = "No conversation found with session ID: 00000000-0000-0000-0000-000000000000";
    let error = extract_result_summary(&events).unwrap().error.unwrap();
    assert_eq!(error.subtype.as_deref(), Some("error_during_execution"));
    assert_eq!(error, {
        let mut expected = ResultError::default();
        expected.subtype = Some("error_during_execution".to_owned());
        expected.text = Some(text.to_owned());
        expected
    });
    assert_eq!(record("resume-unknown")["exit_code"], 1);
    assert_eq!(record("resume-unknown")["stderr"].as_str().map(str::trim), Some(text));
}

#[test]
fn wrong_flag_is_reported_on_standard_error_only() {
    let record = record("usage");
    assert_eq!(events("usage"), []);
    assert_eq!(record["exit_code"], 1);
    let stderr = record["stderr"].as_str().unwrap();
    assert_eq!(extract_error_summary(&[], stderr).as_deref(), Some("error: unknown option '--no-such-flag'"));
}

#[test]
fn tool_result_refers_to_its_call() {
    let events = events("tool-use");
    let blocks: Vec<_> = events
        .iter()
        .filter_map(|event| match event.kind() {
            EventKind::Assistant(message) | EventKind::User(message) => Some(&message.content),
            _ => None,
        })
        .flatten()
        .collect();
    let [
        ContentBlock::Text(_),
        ContentBlock::ToolUse(call),
        ContentBlock::ToolResult(result),
        ContentBlock::Text(_),
    ] = blocks.as_slice()
    else {
        panic!("{blocks:?}")
    };
    assert_eq!(
        (call.name.as_str(), &call.input["command"]),
        ("Bash", &Value::from("echo output of the tool"))
    );
    assert_eq!((&result.tool_use_id, result.text().as_str()), (&call.id, "output of the tool"));
    assert!(!result.is_error);
}

#[test]
fn events_of_a_subagent_are_distinguished_from_the_main_thread() {
    let events = events("subagent");
    let of_subagent = events.iter().filter(|event| event.parent_tool_use_id().is_some()).count();
    assert!(of_subagent >= 2, "{of_subagent}");
    let main: Vec<_> =
        events.iter().filter_map(StreamEvent::as_main_assistant).flat_map(MessageEvent::texts).collect();
    assert_eq!(main, ["The subagent was called."]);
}

#[test]
fn init_event_has_model_tools_and_version() {
    let events = events("text");
    let EventKind::System(system) = events[0].kind() else { panic!("{:?}", events[0]) };
    let init = system.init.as_ref().unwrap();
    assert!(init.model.as_deref().unwrap().starts_with("claude-"));
    assert!(init.tools.iter().any(|tool| tool == "Bash"));
    assert_eq!(init.cwd.as_deref(), Some("/workspace"));
    assert!(init.claude_code_version.is_some());
}

#[test]
fn thinking_is_a_separate_block() {
    let thoughts = events("thinking")
        .iter()
        .filter_map(StreamEvent::as_main_assistant)
        .flat_map(|message| &message.content)
        .filter(|block| matches!(block, ContentBlock::Thinking(_)))
        .count();
    assert_eq!(thoughts, 1);
}
