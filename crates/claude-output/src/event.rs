//! One event: the original JSON object, and its meaning.

use std::time::Duration;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::fields::Fields;
use crate::fields::WrongType;
use crate::message::MessageEvent;
use crate::result::ResultEvent;
use crate::system::SystemEvent;

/// One event of the stream.
///
/// It serialises as the object that was read, so that storing events loses nothing, and reads back
/// equal.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEvent {
    raw: Map<String, Value>,
    kind: EventKind,
}

/// The meaning of an event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// `system`: Claude Code reports about itself.
    System(SystemEvent),
    /// `assistant`: the model wrote something.
    Assistant(MessageEvent),
    /// `user`: a prompt, or the result of a tool.
    User(MessageEvent),
    /// `result`: a turn has ended.
    Result(Box<ResultEvent>),
    /// `stream_event`: a piece of the model's output while it is written. A later `assistant` event
    /// has all of it.
    Partial(Partial),
    /// A line was too long, or had too many values; [`EventParser`](crate::EventParser) replaced it
    /// with this event.
    Truncated(TruncatedLine),
    /// Claude Code reported nothing for a time. Not an event of Claude Code: its observer inserts
    /// it with [`StreamEvent::stalled`].
    Stalled(Stall),
    /// Another type, or a field that this crate does not understand. [`StreamEvent::raw`] has the
    /// complete object.
    Unknown,
}

/// A piece of the model's output, if requested from Claude Code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partial {
    /// A message begins. Pieces of an earlier message without an `assistant` event will not be
    /// repeated.
    Begin,
    /// More text of the message.
    Text(String),
    /// Any other part of the message.
    Other,
}

/// The rest of a line that exceeded the parser's limits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TruncatedLine {
    /// The limit that it exceeded.
    pub limit: u64,
    /// The unit of the limit.
    pub unit: LimitUnit,
    /// The first kibibyte of the line.
    pub head: String,
}

/// The time without a report of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The time in milliseconds.
    pub silent_ms: u64,
}

/// The unit of a parser limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitUnit {
    /// The bytes of a line.
    #[default]
    Bytes,
    /// The JSON values in a line.
    Values,
}

/// A text is not an event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseEventError {
    /// It is not JSON.
    #[error("failed to parse event as JSON")]
    Json(#[source] serde_json::Error),
    /// It is JSON, but not an object.
    #[error("failed to parse event: JSON is not an object")]
    NotAnObject,
}

/// Reads one line.
///
/// # Errors
///
/// If the line is not a JSON object. An object is never refused: missing or unknown parts make it
/// [`EventKind::Unknown`].
///
/// # Example
///
/// ```
/// use claude_output::EventKind;
/// use claude_output::parse_event;
///
/// let event = parse_event(r#"{"type":"rate_limit_event","session_id":"7a1c"}"#)?;
/// assert_eq!(event.kind(), &EventKind::Unknown);
/// assert_eq!(event.session_id(), Some("7a1c"));
/// # Ok::<(), claude_output::ParseEventError>(())
/// ```
pub fn parse_event(line: &str) -> Result<StreamEvent, ParseEventError> {
    match serde_json::from_str(line).map_err(ParseEventError::Json)? {
        Value::Object(object) => Ok(object.into()),
        _ => Err(ParseEventError::NotAnObject),
    }
}

impl StreamEvent {
    /// The meaning of the event.
    #[must_use]
    pub fn kind(&self) -> &EventKind {
        &self.kind
    }

    /// The object as it was read.
    #[must_use]
    pub fn raw(&self) -> &Map<String, Value> {
        &self.raw
    }

    /// The object as it was read, without a copy.
    #[must_use]
    pub fn into_raw(self) -> Map<String, Value> {
        self.raw
    }

    /// The `type` field; empty if absent.
    #[must_use]
    pub fn event_type(&self) -> &str {
        self.text_field("type").unwrap_or_default()
    }

    /// The `subtype` field.
    #[must_use]
    pub fn subtype(&self) -> Option<&str> {
        self.text_field("subtype")
    }

    /// The session that the event belongs to.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.text_field("session_id")
    }

    /// The tool call that a subagent's event belongs to; absent on the main thread.
    #[must_use]
    pub fn parent_tool_use_id(&self) -> Option<&str> {
        self.text_field("parent_tool_use_id")
    }

    /// The result, if the event is one.
    #[must_use]
    pub fn as_result(&self) -> Option<&ResultEvent> {
        match &self.kind {
            EventKind::Result(result) => Some(result),
            _ => None,
        }
    }

    /// The message of the model, if the event is one and not from a subagent.
    #[must_use]
    pub fn as_main_assistant(&self) -> Option<&MessageEvent> {
        match &self.kind {
            EventKind::Assistant(message) if self.parent_tool_use_id().is_none() => Some(message),
            _ => None,
        }
    }

    /// The event for a program that has reported nothing for `silent`.
    #[must_use]
    pub fn stalled(silent: Duration) -> Self {
        let silent = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
        own([("type", json!(STALLED)), ("silent_ms", json!(silent))])
    }

    /// Whether the model wrote it, here or in a subagent.
    #[must_use]
    pub fn is_from_model(&self) -> bool {
        matches!(&self.kind, EventKind::Assistant(message) if !message.is_api_error)
    }

    /// The event that replaces a line beyond `limit`.
    pub(crate) fn truncated(limit: u64, unit: LimitUnit, head: &str) -> Self {
        own([
            ("type", json!(TRUNCATED)),
            ("limit", json!(limit)),
            ("unit", json!(unit.as_str())),
            ("head", json!(head)),
        ])
    }

    fn text_field(&self, name: &str) -> Option<&str> {
        self.raw.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

impl Partial {
    fn read(raw: &Map<String, Value>) -> Self {
        let at = |path: &str| raw.get("event").and_then(|event| event.pointer(path)).and_then(Value::as_str);
        match (at("/type"), at("/delta/type"), at("/delta/text")) {
            (Some("message_start"), ..) => Self::Begin,
            (Some("content_block_delta"), Some("text_delta"), Some(text)) => Self::Text(text.to_owned()),
            _ => Self::Other,
        }
    }
}

impl LimitUnit {
    fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Values => "values",
        }
    }

    /// Bytes by default: the first versions had no other limit.
    fn read(text: Option<&str>) -> Self {
        match text {
            Some("values") => Self::Values,
            _ => Self::Bytes,
        }
    }
}

/// The types of our own events. Claude Code uses none of these names.
const TRUNCATED: &str = "truncated_line";
const STALLED: &str = "stalled";

fn own<const N: usize>(fields: [(&str, Value); N]) -> StreamEvent {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

impl From<Map<String, Value>> for StreamEvent {
    fn from(raw: Map<String, Value>) -> Self {
        let kind = classify(&raw).unwrap_or(EventKind::Unknown);
        Self { raw, kind }
    }
}

impl Serialize for StreamEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StreamEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

fn classify(raw: &Map<String, Value>) -> Result<EventKind, WrongType> {
    let fields = Fields::new(raw);
    // Read for every kind: an id of the wrong type makes the event unknown.
    fields.string("session_id")?;
    fields.string("parent_tool_use_id")?;
    Ok(match fields.string("type")?.as_deref() {
        Some("system") => EventKind::System(SystemEvent::read(raw)?),
        Some("assistant") => EventKind::Assistant(MessageEvent::read(raw)?),
        Some("user") => EventKind::User(MessageEvent::read(raw)?),
        Some("result") => EventKind::Result(Box::new(ResultEvent::read(raw)?)),
        Some("stream_event") if raw.contains_key("event") => EventKind::Partial(Partial::read(raw)),
        Some(TRUNCATED) => EventKind::Truncated(TruncatedLine {
            limit: fields.count("limit")?.unwrap_or_default(),
            unit: LimitUnit::read(fields.string("unit")?.as_deref()),
            head: fields.string("head")?.unwrap_or_default(),
        }),
        Some(STALLED) => {
            EventKind::Stalled(Stall { silent_ms: fields.count("silent_ms")?.unwrap_or_default() })
        }
        _ => EventKind::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ContentBlock;

    fn kind(value: &Value) -> EventKind {
        parse_event(&value.to_string()).unwrap().kind
    }

    #[test]
    fn pieces_of_text_are_distinguished_from_other_pieces() {
        let delta = |kind: &str, text: Value| json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": 0, "delta": {"type": kind, "text": text}}});
        for (event, expected) in [
            (delta("text_delta", json!("a\u{1b}")), Partial::Text("a\u{1b}".to_owned())),
            (delta("text_delta", json!(3)), Partial::Other),
            (delta("input_json_delta", json!("a")), Partial::Other),
            (json!({"type": "stream_event", "event": {"type": "message_start"}}), Partial::Begin),
            (json!({"type": "stream_event", "event": {}}), Partial::Other),
            (json!({"type": "stream_event", "event": "x"}), Partial::Other),
        ] {
            assert_eq!(kind(&event), EventKind::Partial(expected), "{event}");
        }
    }

    #[test]
    fn field_of_the_wrong_type_makes_the_event_unknown() {
        let cases = [
            json!({}),
            json!({"type": null}),
            json!({"type": 3}),
            json!({"type": "stream_event"}),
            json!({"type": "system", "subtype": 3}),
            json!({"type": "system", "subtype": "init", "tools": [1]}),
            json!({"type": "assistant", "message": "text"}),
            json!({"type": "assistant", "message": {"content": 3}}),
            json!({"type": "assistant", "session_id": 3}),
            json!({"type": "user", "parent_tool_use_id": {}}),
            json!({"type": "result", "is_error": "false"}),
            json!({"type": "result", "api_error_status": "429"}),
            json!({"type": "result", "usage": {"input_tokens": "3"}}),
            json!({"type": "result", "result": {"content": []}}),
        ];
        for case in cases {
            let event = parse_event(&case.to_string()).unwrap();
            assert_eq!(event.kind(), &EventKind::Unknown, "{case}");
            assert_eq!(Value::Object(event.into_raw()), case);
        }
    }

    #[test]
    fn null_counts_as_absent() {
        let EventKind::Result(result) = kind(&json!({
            "type": "result", "is_error": null, "result": null, "api_error_status": null, "duration_ms": null,
            "usage": null, "session_id": null, "errors": null, "total_cost_usd": null,
        })) else {
            panic!("no result")
        };
        assert_eq!(*result, ResultEvent::default());
    }

    #[test]
    fn invalid_block_leaves_its_message_readable() {
        let bad = json!({"type": "text", "text": 3});
        let event =
            json!({"type": "assistant", "message": {"content": [bad, {"type": "text", "text": "a"}]}});
        let EventKind::Assistant(message) = kind(&event) else { panic!("no message") };
        assert_eq!(message.content, [ContentBlock::Unknown(bad), ContentBlock::Text("a".to_owned())]);
    }

    #[test]
    fn string_content_is_one_text_block() {
        let EventKind::User(message) = kind(&json!({"type": "user", "message": {"content": "hello"}})) else {
            panic!("no message")
        };
        assert_eq!(message.content, [ContentBlock::Text("hello".to_owned())]);
    }

    #[test]
    fn only_objects_are_events() {
        assert!(matches!(parse_event("[]"), Err(ParseEventError::NotAnObject)));
        assert!(matches!(parse_event("{"), Err(ParseEventError::Json(_))));
        assert!(serde_json::from_str::<StreamEvent>("3").is_err());
    }

    #[test]
    fn stall_round_trips() {
        let event = StreamEvent::stalled(Duration::from_secs(2));
        let read = parse_event(&serde_json::to_string(&event).unwrap()).unwrap();
        assert_eq!(read, event);
        assert_eq!(read.kind(), &EventKind::Stalled(Stall { silent_ms: 2000 }));
    }

    #[test]
    fn truncated_line_round_trips() {
        for unit in [LimitUnit::Bytes, LimitUnit::Values] {
            let event = StreamEvent::truncated(9, unit, "head");
            let read = parse_event(&serde_json::to_string(&event).unwrap()).unwrap();
            assert_eq!(read, event);
            let head = "head".to_owned();
            assert_eq!(read.kind(), &EventKind::Truncated(TruncatedLine { limit: 9, unit, head }));
        }
    }
}
