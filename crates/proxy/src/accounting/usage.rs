//! Finds the tokens that a model's vendor reports in a response.
//!
//! All vendors report them in an object `usage` (Google: `usageMetadata`), in a document as in the
//! events of a stream, and later numbers of a stream are totals. The highest numbers count: no
//! other object of that name can lower them.

use memchr::memmem;
use sandbox_proxy_protocol::Tokens;
use serde_json::Value;

/// The beginning of the key. Inside a JSON string, a backslash would precede its second quote.
const KEY: &[u8] = b"\"usage";
/// The longest object that is read.
const LONGEST: usize = 8192;

/// Reads one response, in pieces of any size.
#[derive(Debug, Default)]
pub(crate) struct UsageReader {
    /// The bytes from the last place where a key may begin.
    pending: Vec<u8>,
    highest: Tokens,
}

/// The result of reading a text that begins like the key.
enum Found<'a> {
    /// Another key, or not an object.
    Other,
    /// More bytes are needed.
    Begun,
    /// The object, and the position of its end.
    Object(&'a [u8], usize),
}

/// The names of the tokens that a model read: their sum counts.
const INPUT: [&str; 6] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "prompt_tokens",
    "promptTokenCount",
    "toolUsePromptTokenCount",
];
/// The names of the tokens that it wrote.
const OUTPUT: [&str; 4] =
    ["output_tokens", "completion_tokens", "candidatesTokenCount", "thoughtsTokenCount"];

impl UsageReader {
    /// All tokens that the response has reported so far.
    pub(crate) fn reported(&self) -> Tokens {
        self.highest
    }

    /// Reads more of the response; returns the tokens that it reports beyond those reported before,
    /// if any.
    pub(crate) fn read(&mut self, data: &[u8]) -> Option<Tokens> {
        let before = self.highest;
        self.pending.extend_from_slice(data);
        let mut at = 0;
        while let Some(rest) = self.pending.get(at..) {
            let Some(start) = memmem::find(rest, KEY) else {
                // The key may have begun.
                at = self.pending.len().saturating_sub(KEY.len() - 1).max(at);
                break;
            };
            at += start;
            let rest = rest.get(start..).unwrap_or_default();
            match find(rest) {
                Found::Begun if rest.len() < LONGEST => break,
                Found::Other | Found::Begun => at += KEY.len(),
                Found::Object(object, length) => {
                    let Tokens { input, output } = tokens(object);
                    self.highest.input = self.highest.input.max(input);
                    self.highest.output = self.highest.output.max(output);
                    at += length;
                }
            }
        }
        self.pending.drain(..at);
        let more = Tokens {
            input: self.highest.input.saturating_sub(before.input),
            output: self.highest.output.saturating_sub(before.output),
        };
        (more != Tokens::default()).then_some(more)
    }
}

/// Classifies `text`, which begins with [`KEY`].
fn find(text: &[u8]) -> Found<'_> {
    let rest = text.get(KEY.len()..).unwrap_or_default();
    let metadata = b"Metadata\"";
    let after = if let Some(after) = rest.strip_prefix(b"\"") {
        after
    } else if let Some(after) = rest.strip_prefix(metadata) {
        after
    } else if metadata.starts_with(rest) {
        return Found::Begun;
    } else {
        return Found::Other;
    };
    let after = after.trim_ascii_start();
    let value = match after.strip_prefix(b":") {
        Some(value) => value.trim_ascii_start(),
        None if after.is_empty() => return Found::Begun,
        None => return Found::Other,
    };
    match value.first() {
        None => Found::Begun,
        Some(b'{') => object(value.get(..LONGEST).unwrap_or(value))
            .map_or(Found::Begun, |object| Found::Object(object, text.len() - value.len() + object.len())),
        Some(_) => Found::Other,
    }
}

/// The object that `text` begins with, once it is complete.
fn object(text: &[u8]) -> Option<&[u8]> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (index, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth += 1,
            b'}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return text.get(..=index);
                }
            }
            _ => {}
        }
    }
    None
}

/// The tokens that an object reports.
fn tokens(object: &[u8]) -> Tokens {
    let usage: Value = serde_json::from_slice(object).unwrap_or_default();
    let sum =
        |names: &[&str]| names.iter().fold(0_u64, |sum, name| sum.saturating_add(number(usage.get(name))));
    Tokens { input: sum(&INPUT), output: sum(&OUTPUT) }
}

/// A number, including one that is written with a fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
fn number(value: Option<&Value>) -> u64 {
    let Some(value) = value else { return 0 };
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],\"usage\":{\"input_tokens\":3,",
        "\"cache_creation_input_tokens\":10,\"cache_read_input_tokens\":20,\"output_tokens\":1,\"service_tier\":\"a } b\"}}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"{\\\"usage\\\":{\\\"output_tokens\\\":999}}\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":null,\"output_tokens\":42}}\n\n",
    );

    fn read(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> (u64, u64) {
        let mut reader = UsageReader::default();
        pieces
            .into_iter()
            .filter_map(|piece| reader.read(piece.as_ref()))
            .fold((0, 0), |sum, tokens| (sum.0 + tokens.input, sum.1 + tokens.output))
    }

    #[test]
    fn each_vendors_report_is_read() {
        for (response, expected) in [
            (STREAM, (33, 42)),
            (
                r#"{"id":"x","usage": { "prompt_tokens" : 7, "completion_tokens":8, "total_tokens":15}}"#,
                (7, 8),
            ),
            (
                r#"{"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":4},"output_tokens":6}}"#,
                (5, 6),
            ),
            (
                r#"[{"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2,"thoughtsTokenCount":3}}]"#,
                (1, 5),
            ),
            (r#"{"usage":null,"other":"usage"}"#, (0, 0)),
            (r#"{"usage":{"output_tokens":9},"tool":{"usage":{"output_tokens":2}}}"#, (0, 9)),
            (r#"{"usage":{"output_tokens":-1},"usage":{"output_tokens":1e400},"usage":{"#, (0, 0)),
            (r#"{"usage":{"input_tokens":12.0,"output_tokens":900}}"#, (12, 900)),
            (r#"{"usage_other":{"output_tokens":1},"usageMeta":{},"usage":{"output_tokens":4}}"#, (0, 4)),
        ] {
            assert_eq!(read([response]), expected, "{response}");
            assert_eq!(read(response.as_bytes().chunks(1)), expected, "in single bytes: {response}");
        }
    }

    #[test]
    fn endless_report_is_abandoned_within_bounded_memory() {
        let mut reader = UsageReader::default();
        for _ in 0..100 {
            reader.read(b"\"usage\":{\"a\":\"");
            reader.read(&[b'x'; 1000]);
            assert!(reader.pending.len() <= LONGEST + 2000);
        }
        reader.read(&[b' '; LONGEST]);
        reader.read(b"\"usage\":{\"output_tokens\":5}");
        assert_eq!(reader.highest.output, 5);
    }

    #[test]
    fn many_unfinished_objects_take_bounded_time() {
        // Each of them is scanned as far as an object may reach, and no farther.
        let beginnings = "\"usage\":{".repeat(100_000);
        assert_eq!(read([beginnings.as_str(), r#"}"usage":{"output_tokens":5}"#]).0, 0);
    }

    proptest! {
        #[test]
        fn report_is_found_in_any_split(cuts in prop::collection::vec(1_usize..40, 1..40)) {
            let mut rest = STREAM.as_bytes();
            let mut pieces = Vec::new();
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(read(pieces), (33, 42));
        }
    }
}
