//! Output of the real programs, recorded against a stand-in for their API.

use claude_output::{
    ParsedLine, extract_api_error, extract_response_text, extract_result_summary, extract_session_id,
};

use super::*;

fn lines(agent: &str, text: &str) -> Vec<StreamEvent> {
    let mut translator = Translator::new(&agent.parse().unwrap()).unwrap();
    let parsed = claude_output::EventParser::new().push(text.as_bytes());
    let events = parsed.into_iter().filter_map(ParsedLine::into_event);
    let mut translated: Vec<StreamEvent> = events.flat_map(|event| translator.translate(event)).collect();
    translated.extend(translator.finish());
    translated
}

/// One word for each event.
fn shape(events: &[StreamEvent]) -> String {
    let words = events.iter().map(|event| match event.kind() {
        EventKind::System(system) => system.subtype.clone().unwrap_or_default(),
        EventKind::Assistant(message) if message.is_api_error => "api-error".to_owned(),
        EventKind::Assistant(message) if message.texts().next().is_none() => "tool".to_owned(),
        EventKind::Assistant(message) => format!("text:{}", message.texts().collect::<String>()),
        EventKind::User(_) => "tool-result".to_owned(),
        EventKind::Result(result) => format!("result:{}", !result.is_error),
        _ => format!("{}:{}", event.event_type(), event.raw()["event"]["type"].as_str().unwrap_or_default()),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn oversized_session_id_is_in_no_event() {
    let long = format!("{{\"type\":\"thread.started\",\"thread_id\":\"{}\"}}\n", "x".repeat(100_000));
    let events = lines("codex", &(long + &"{\"type\":\"x\"}\n".repeat(1000)));
    assert_eq!((events.len(), extract_session_id(&events)), (1000, None));
}

#[test]
fn turn_with_a_tool_has_the_reported_events_and_usage() {
    for (agent, text, expected, expected_tokens) in [
        (
            "codex",
            include_str!("../recorded/codex-tool.jsonl"),
            "init agent_event:turn.started tool tool-result text:pong 2 result:true",
            (12, 8, 10),
        ),
        (
            "gemini",
            include_str!("../recorded/gemini-tool.jsonl"),
            "init tool tool-result text:pong 2 result:true",
            (30, 0, 15),
        ),
        (
            "opencode",
            include_str!("../recorded/opencode-tool.jsonl"),
            "init tool tool-result text:pong 1 result:true",
            (20, 0, 10),
        ),
    ] {
        let events = lines(agent, text);
        assert_eq!(shape(&events), expected, "{agent}");
        let summary = extract_result_summary(&events).unwrap();
        assert_eq!(summary.error, None);
        assert_eq!(summary.session_id.as_deref(), extract_session_id(&events));
        assert!(extract_session_id(&events).is_some_and(|id| id.len() > 20), "{agent}");
        assert!(extract_response_text(&events).starts_with("pong "), "{agent}");
        let usage = summary.usage.unwrap();
        let tokens = (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens);
        assert_eq!(tokens, expected_tokens, "{agent}");
    }
}

#[test]
fn api_error_has_the_reported_status() {
    for (agent, text, status, words) in [
        ("codex", include_str!("../recorded/codex-unauthorized.jsonl"), Some(401), "unexpected status 401"),
        ("codex", include_str!("../recorded/codex-rate-limit.jsonl"), Some(429), "exceeded retry limit"),
        // Codex shows the answer but not its status.
        ("codex", include_str!("../recorded/codex-bad-request.jsonl"), None, "the stand-in says 400"),
        ("gemini", include_str!("../recorded/gemini-unauthorized.jsonl"), Some(401), "the stand-in says 401"),
        (
            "opencode",
            include_str!("../recorded/opencode-unauthorized.jsonl"),
            Some(401),
            "the stand-in says 401",
        ),
    ] {
        let events = lines(agent, text);
        let error = extract_result_summary(&events).and_then(|summary| summary.error).unwrap();
        assert_eq!(error.api_error_status, status, "{agent}: {events:?}");
        assert!(error.text.is_some_and(|text| text.contains(words)), "{agent}");
        if status.is_some() {
            assert_eq!(extract_api_error(&events).and_then(|error| error.status), status, "{agent}");
        }
    }
}

#[test]
fn unfinished_turn_has_no_result() {
    for (agent, text) in [
        ("codex", include_str!("../recorded/codex-killed.jsonl")),
        ("gemini", include_str!("../recorded/gemini-killed.jsonl")),
        ("opencode", include_str!("../recorded/opencode-tool.jsonl").lines().next().unwrap()),
    ] {
        let events = lines(agent, &format!("{text}\n"));
        assert!(extract_session_id(&events).is_some(), "{agent}");
        assert_eq!(extract_result_summary(&events), None, "{agent}");
    }
    let events = lines("gemini", include_str!("../recorded/gemini-killed.jsonl"));
    assert_eq!(shape(&events), "init text:pong ", "its text so far is kept");
}

#[test]
fn unknown_line_is_not_mistaken_for_an_event_of_claude_code() {
    for agent in ["codex", "opencode"] {
        let events = lines(
            agent,
            "{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"x\"}\n{\"type\":3}\n{}\n",
        );
        assert_eq!(shape(&events), "agent_event:result agent_event: agent_event:", "{agent}");
        assert_eq!(events[0].raw()["event"]["result"], "x");
    }
    let odd = lines(
        "gemini",
        "{\"type\":\"init\",\"session_id\":{\"a\":1}}\n{\"type\":\"result\",\"status\":\"maybe\"}\n",
    );
    assert_eq!(extract_result_summary(&odd), None);
}
