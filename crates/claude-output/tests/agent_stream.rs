//! Arbitrary bytes as the output of Claude Code. A violated property is a panic.
//!
//! The fuzzer runs this file, and as a test it runs every seed.

use claude_output::EventKind;
use claude_output::EventParser;
use claude_output::ParsedLine;
use claude_output::StreamEvent;
use claude_output::extract_error_summary;
use claude_output::extract_response_text;
use claude_output::extract_result_summary;
use claude_output::extract_session_id;
use claude_output::parse_event;
use fuzz_input::Input;
use fuzz_input::pieces;

/// Maximum quote of a too long line: a kibibyte, each byte of which may be replaced with three.
const LONGEST_QUOTE: usize = 3 * 1024;

/// The first byte chooses the maximum length of a line, the next ones how the output is split; the
/// rest is the output.
///
/// # Panics
///
/// If the split changes the result, more than one line is buffered, or a stored event does not
/// round-trip.
pub fn agent_stream(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = match input.byte() {
        0 => usize::from(u16::MAX),
        short => usize::from(short),
    };
    let sizes = input.sizes();
    let output = input.rest();
    let whole = read(limit, &[output]);
    for sizes in [sizes.as_slice(), &[1]] {
        assert!(read(limit, &pieces(output, sizes)) == whole, "cuts change what comes out");
    }
    let lines = output.split(|byte| *byte == b'\n').count();
    assert!(whole.len() <= lines, "more came out than there are lines");
    let events: Vec<StreamEvent> = whole.into_iter().filter_map(ParsedLine::into_event).collect();
    for event in &events {
        check(event, limit);
    }
    let _ = (
        extract_response_text(&events),
        extract_result_summary(&events),
        extract_session_id(&events),
        extract_error_summary(&events, &String::from_utf8_lossy(output)),
    );
}

fn read(limit: usize, pieces: &[&[u8]]) -> Vec<ParsedLine> {
    let mut parser = EventParser::with_line_limit(limit);
    let mut lines = Vec::new();
    for piece in pieces {
        lines.extend(parser.push(piece));
        assert!(parser.held() <= limit, "too much is held back");
    }
    lines.extend(parser.finish());
    assert_eq!(parser.held(), 0, "something is held back after the end");
    lines
}

fn check(event: &StreamEvent, limit: usize) {
    let stored = serde_json::to_string(event).unwrap_or_else(|error| panic!("{error}"));
    assert!(parse_event(&stored).ok().as_ref() == Some(event), "an event reads back as another");
    if let EventKind::Truncated(line) = event.kind() {
        // Claude Code may also write an event of this type, of any length.
        let is_ours = line.limit == limit as u64;
        assert!(!is_ours || line.head.len() <= LONGEST_QUOTE.max(limit), "too much of a long line is quoted");
    }
}

#[cfg(test)]
#[test]
fn every_seed_passes() {
    fuzz_input::run_seeds("agent_stream", 500, agent_stream);
}
