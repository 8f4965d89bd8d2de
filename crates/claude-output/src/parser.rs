//! Parses bytes in any pieces to lines, and lines to events, in linear time.

use crate::event::LimitUnit;
use crate::event::StreamEvent;
use crate::event::parse_event;

/// Default maximum length of a line: 64 MiB.
pub const DEFAULT_LINE_LIMIT: usize = 64 * 1024 * 1024;

/// Maximum number of JSON values in a line: 512 Ki. In memory a value takes up to a hundred times
/// the size of its text.
pub const VALUE_LIMIT: usize = 512 * 1024;

/// Number of bytes that the event of a too long line quotes.
const HEAD: usize = 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line of Claude Code's standard output.
#[derive(Debug, Clone, PartialEq)]
pub enum ParsedLine {
    /// A JSON object, or the event that replaces a line that was too long.
    Event(StreamEvent),
    /// A line that is not a JSON object, without its line end. Invalid UTF-8 is replaced.
    Text(String),
}

impl ParsedLine {
    /// The event, if the line is one.
    #[must_use]
    pub fn into_event(self) -> Option<StreamEvent> {
        match self {
            Self::Event(event) => Some(event),
            Self::Text(_) => None,
        }
    }
}

/// Reads events from bytes as they arrive.
///
/// The split of the bytes affects only the time of the output, not its content. Blank lines, a
/// carriage return before a newline and a byte order mark at the start are dropped. A line that
/// exceeds the limit immediately becomes one [`EventKind::Truncated`](crate::EventKind::Truncated)
/// event, and its rest is dropped. So does a line with more values than [`VALUE_LIMIT`].
#[derive(Debug)]
pub struct EventParser {
    limit: usize,
    /// The line so far: never more than the limit, and never a newline.
    partial: Vec<u8>,
    position: Position,
}

/// The position of the next byte in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// In the first line, which may begin with a byte order mark.
    FirstLine,
    /// In a later line.
    LaterLine,
    /// In the rest of a line that was too long.
    Dropped,
}

impl Default for EventParser {
    fn default() -> Self {
        Self::with_line_limit(DEFAULT_LINE_LIMIT)
    }
}

impl EventParser {
    /// A parser with the [default limit](DEFAULT_LINE_LIMIT).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A parser that keeps lines of up to `limit` bytes, without the line end.
    #[must_use]
    pub fn with_line_limit(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), position: Position::FirstLine }
    }

    /// Takes the next bytes and returns the lines that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<ParsedLine> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |piece| (piece, true));
            lines.extend(self.extend_line(piece));
            if ends {
                lines.extend(self.end_line());
            }
        }
        lines
    }

    /// Ends the stream and returns its last line if it had no line end.
    ///
    /// The parser can be used for another stream afterwards.
    pub fn finish(&mut self) -> Option<ParsedLine> {
        let line = self.end_line();
        self.position = Position::FirstLine;
        line
    }

    /// Number of buffered bytes of the unfinished line; never more than the limit of a line.
    #[must_use]
    pub fn held(&self) -> usize {
        self.partial.len()
    }

    /// Adds to the current line; returns the event that replaces it once it is too long.
    fn extend_line(&mut self, piece: &[u8]) -> Option<ParsedLine> {
        if self.position == Position::Dropped {
            return None;
        }
        let room = self.limit - self.partial.len();
        let (fits, rest) = piece.split_at(room.min(piece.len()));
        self.partial.extend_from_slice(fits);
        if rest.is_empty() {
            return None;
        }
        let line = std::mem::take(&mut self.partial);
        let truncated = truncated(self.limit, LimitUnit::Bytes, self.without_mark(&line));
        self.position = Position::Dropped;
        Some(truncated)
    }

    fn end_line(&mut self) -> Option<ParsedLine> {
        let line = std::mem::take(&mut self.partial);
        let parsed = parse_line(self.without_mark(&line));
        self.position = Position::LaterLine;
        parsed
    }

    fn without_mark<'a>(&self, line: &'a [u8]) -> &'a [u8] {
        match self.position {
            Position::FirstLine => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            Position::LaterLine | Position::Dropped => line,
        }
    }
}

/// `None` for a blank line.
fn parse_line(line: &[u8]) -> Option<ParsedLine> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\r');
    if text.trim().is_empty() {
        return None;
    }
    if has_more_values(text, VALUE_LIMIT) {
        return Some(truncated(VALUE_LIMIT, LimitUnit::Values, text.as_bytes()));
    }
    Some(parse_event(text).map_or_else(|_| ParsedLine::Text(text.to_owned()), ParsedLine::Event))
}

fn truncated(limit: usize, unit: LimitUnit, line: &[u8]) -> ParsedLine {
    let head = String::from_utf8_lossy(line.get(..HEAD).unwrap_or(line));
    ParsedLine::Event(StreamEvent::truncated(limit as u64, unit, &head))
}

/// Whether an object in `text` has more than `limit` values, counted without parsing: each, or its
/// name, follows a bracket or a comma outside of strings.
fn has_more_values(text: &str, limit: usize) -> bool {
    if text.len() <= limit || !text.trim_start().starts_with('{') {
        return false;
    }
    let (mut values, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' | b',' if !in_string => values += 1,
            _ => {}
        }
    }
    values > limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventKind;

    fn parse(parser: &mut EventParser, bytes: &[u8]) -> Vec<ParsedLine> {
        let mut lines = parser.push(bytes);
        lines.extend(parser.finish());
        lines
    }

    fn event(json: &str) -> ParsedLine {
        ParsedLine::Event(parse_event(json).unwrap())
    }

    fn text(text: &str) -> ParsedLine {
        ParsedLine::Text(text.to_owned())
    }

    #[test]
    fn lines_of_every_kind() {
        let cases: [(&[u8], Vec<ParsedLine>); 11] = [
            (b"", vec![]),
            (b"\n\r\n  \n", vec![]),
            (b"{\"type\":\"a\"}\n", vec![event(r#"{"type":"a"}"#)]),
            (
                b"{\"type\":\"a\"}\r\n{\"type\":\"b\"}",
                vec![event(r#"{"type":"a"}"#), event(r#"{"type":"b"}"#)],
            ),
            (b"\xef\xbb\xbf{\"type\":\"a\"}", vec![event(r#"{"type":"a"}"#)]),
            (b"\xef\xbb\xbf\n", vec![]),
            (b"a\n\xef\xbb\xbfb\n", vec![text("a"), text("\u{feff}b")]),
            (b"{\"type\":\"a\",\"x\":\"\xff\"}", vec![event("{\"type\":\"a\",\"x\":\"\u{fffd}\"}")]),
            (b"Prompt is too long\r\n", vec![text("Prompt is too long")]),
            (b"[1]\n3\n\"a\"", vec![text("[1]"), text("3"), text("\"a\"")]),
            (b"{\"type\":\"assis", vec![text("{\"type\":\"assis")]),
        ];
        for (bytes, expected) in cases {
            assert_eq!(parse(&mut EventParser::new(), bytes), expected, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn line_over_the_limit_is_one_truncated_event() {
        let mut parser = EventParser::with_line_limit(16);
        let lines = parse(&mut parser, b"0123456789abcdef\n0123456789abcdefg, and more\n{\"type\":\"a\"}\n");
        let expected = [
            text("0123456789abcdef"),
            ParsedLine::Event(StreamEvent::truncated(16, LimitUnit::Bytes, "0123456789abcdef")),
            event(r#"{"type":"a"}"#),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn truncated_line_is_reported_before_its_end_without_memory() {
        let mut parser = EventParser::with_line_limit(4);
        let lines = parser.push(b"01234");
        let [ParsedLine::Event(event)] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(matches!(event.kind(), EventKind::Truncated(_)));
        assert_eq!(parser.push(&[b'x'; 4096]), []);
        assert_eq!(parser.partial.capacity(), 0);
        assert_eq!(parser.push(b"\nok\n"), [text("ok")]);
    }

    #[test]
    fn line_of_very_many_values_is_truncated_and_long_text_is_not() {
        let zeros = |count: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(count - 1));
        let within = zeros(VALUE_LIMIT - 2);
        assert_eq!(parse(&mut EventParser::new(), within.as_bytes()), [event(&within)]);
        let beyond = zeros(VALUE_LIMIT + 1);
        let marked = truncated(VALUE_LIMIT, LimitUnit::Values, beyond.as_bytes());
        assert_eq!(parse(&mut EventParser::new(), beyond.as_bytes()), [marked]);
        let long = format!(r#"{{"type":"a","text":"\"{}"}}"#, "[,{\\\\".repeat(VALUE_LIMIT));
        assert_eq!(parse(&mut EventParser::new(), long.as_bytes()), [event(&long)]);
    }

    #[test]
    fn parser_can_read_a_second_stream() {
        let mut parser = EventParser::new();
        assert_eq!(parse(&mut parser, b"a"), [text("a")]);
        assert_eq!(parse(&mut parser, b"\xef\xbb\xbfb"), [text("b")]);
    }

    #[test]
    fn line_with_too_deep_nesting_is_text() {
        let line = "{\"a\":".repeat(200);
        assert_eq!(parse(&mut EventParser::new(), line.as_bytes()), [text(&line)]);
    }
}
