//! Properties that hold for all bytes from a pipe.

use claude_output::EventParser;
use claude_output::ParsedLine;
use claude_output::StreamEvent;
use claude_output::extract_error_summary;
use claude_output::extract_response_text;
use claude_output::extract_result_summary;
use claude_output::extract_session_id;
use claude_output::parse_event;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

/// Small enough that some generated lines exceed it.
const LIMIT: usize = 64;

fn parse(pieces: &[&[u8]]) -> Vec<ParsedLine> {
    let mut parser = EventParser::with_line_limit(LIMIT);
    let mut lines: Vec<_> = pieces.iter().flat_map(|piece| parser.push(piece)).collect();
    lines.extend(parser.finish());
    lines
}

/// Streams that are rich in line ends, marks, broken UTF-8 and long lines.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(b"{\"type\":\"result\",\"result\":\"a\"}\n".to_vec()),
        Just(b"{\"type\":\"assistant\",\"message\":{\"content\":\"\xff\"}}\n".to_vec()),
        vec(any::<u8>(), 0..16),
        vec(b'a'..b'f', 0..2 * LIMIT),
    ];
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Any JSON, its objects rich in the names that this crate reads.
fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(assistant|user|system|result|init|text|tool_use|tool_result|thinking)".prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name(), inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    "(type|subtype|message|content|id|name|input|text|thinking|tool_use_id|is_error|result|errors|usage|session_id|tools|input_tokens|num_turns|.{0,4})"
}

fn object() -> impl Strategy<Value = Value> {
    vec((name(), json()), 0..8).prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

proptest! {
    #[test]
    fn split_does_not_change_the_lines(bytes in stream(), cuts in vec(any::<prop::sample::Index>(), 0..12)) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        let bytewise: Vec<_> = bytes.chunks(1).collect();
        let whole = parse(&[&bytes]);
        prop_assert_eq!(&parse(&pieces), &whole);
        prop_assert_eq!(&parse(&bytewise), &whole);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..512)) {
        let events: Vec<_> = parse(&[&bytes]).into_iter().filter_map(ParsedLine::into_event).collect();
        extract_everything(&events);
    }

    #[test]
    fn object_is_an_event_that_round_trips(json in object()) {
        let event = parse_event(&json.to_string()).unwrap();
        prop_assert_eq!(serde_json::to_value(&event).unwrap(), json);
        let again: StreamEvent = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        prop_assert_eq!(&again, &event);
        extract_everything(&[event]);
    }

    #[test]
    fn non_blank_line_is_returned_once(texts in vec("[a-z]{1,20}", 0..20)) {
        let bytes = texts.join("\n").into_bytes();
        let expected: Vec<_> = texts.into_iter().map(ParsedLine::Text).collect();
        prop_assert_eq!(parse(&[&bytes]), expected);
    }
}

/// Extracting from arbitrary events must not panic.
fn extract_everything(events: &[StreamEvent]) {
    let _ = (
        extract_response_text(events),
        extract_result_summary(events),
        extract_session_id(events),
        extract_error_summary(events, ""),
    );
}
