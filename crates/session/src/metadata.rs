//! The content of `context.json`.

use claude_output::{
    StreamEvent, Usage, extract_response_text, extract_result_summary, extract_session_id, parse_event,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::budget::MissingEvents;

/// The history of one execution context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionMetadata {
    /// The opaque key of the context.
    pub execution_context_id: String,
    /// The model of the context, if one was chosen.
    #[serde(default)]
    pub model: Option<String>,
    /// Requests and replies, oldest first.
    #[serde(default, deserialize_with = "null_as_default")]
    pub replies: Vec<SessionReply>,
    /// Fields unknown to this version, which are kept.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One execution: a prompt and its result.
///
/// During the run, and after a kill, it has the events so far;
/// [`response_text`](Self::response_text) is empty until a result arrives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct SessionReply {
    /// The id to resume with; empty until Claude Code reports it.
    #[serde(deserialize_with = "null_as_default")]
    pub session_id: String,
    /// The start of the execution: RFC 3339, UTC.
    #[serde(deserialize_with = "null_as_default")]
    pub timestamp: String,
    /// Milliseconds, as reported by Claude Code, otherwise as measured.
    #[serde(deserialize_with = "null_as_default")]
    pub duration_ms: u64,
    /// Cost in US dollars, as reported by Claude Code.
    #[serde(deserialize_with = "null_as_default")]
    pub total_cost_usd: f64,
    /// Turns of the conversation.
    #[serde(deserialize_with = "null_as_default")]
    pub num_turns: u64,
    /// Whether the execution failed, or was interrupted by the end of the sandbox itself.
    #[serde(deserialize_with = "null_as_default")]
    pub is_error: bool,
    /// Tokens.
    #[serde(deserialize_with = "null_as_default")]
    pub usage: Usage,
    /// The prompt.
    #[serde(deserialize_with = "null_as_default")]
    pub request_text: String,
    /// The answer.
    #[serde(deserialize_with = "null_as_default")]
    pub response_text: String,
    /// Claude Code's events, in order.
    #[serde(deserialize_with = "events")]
    pub events: Vec<StreamEvent>,
    /// Events that were not kept because there were too many; omitted from the file if there are
    /// none.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "MissingEvents::is_none")]
    pub missing: MissingEvents,
    /// Fields unknown to this version, which are kept.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl SessionMetadata {
    /// The newest session id that Claude Code can resume.
    ///
    /// It skips ids that are not a plain word, which could be mistaken for an option, and ids that
    /// Claude Code refused to resume: it then reports an error result for the id, and no other
    /// event.
    #[must_use]
    pub fn session_id_for_resume(&self) -> Option<&str> {
        let refused = |reply: &SessionReply| reply.is_error && reply.has_only_results();
        newest_usable(self.replies.iter().map(|reply| (reply.session_id.as_str(), refused(reply))))
    }

    /// The newest answer that is not an error and not empty.
    #[must_use]
    pub fn last_successful_response(&self) -> Option<&str> {
        let answers = self.replies.iter().rev().filter(|reply| !reply.is_error);
        answers.map(|reply| reply.response_text.as_str()).find(|text| !text.is_empty())
    }
}

impl SessionReply {
    /// Fills in the values that the events have reported so far.
    pub(super) fn update_from_events(&mut self) {
        if let Some(id) = extract_session_id(&self.events) {
            id.clone_into(&mut self.session_id);
        }
        if let Some(summary) = extract_result_summary(&self.events) {
            self.duration_ms = summary.duration_ms;
            self.num_turns = summary.num_turns;
            self.total_cost_usd = summary.total_cost_usd.unwrap_or_default();
            self.usage = summary.usage.unwrap_or_default();
            self.is_error = summary.error.is_some();
            self.response_text = extract_response_text(&self.events);
        }
    }

    /// Closes a reply whose writer is gone: without a result it is a failure, with the text so far
    /// as its answer.
    pub(super) fn interrupt(&mut self) {
        self.update_from_events();
        if !self.events.iter().any(|event| event.as_result().is_some()) {
            self.is_error = true;
            self.response_text = extract_response_text(&self.events);
        }
    }

    /// Whether it has only result events. With an error, Claude Code only refused the session to
    /// resume.
    pub(super) fn has_only_results(&self) -> bool {
        !self.events.is_empty() && self.events.iter().all(|event| event.as_result().is_some())
    }
}

/// The newest usable one of these session ids, each with whether it was refused.
pub(super) fn newest_usable<'a>(
    replies: impl DoubleEndedIterator<Item = (&'a str, bool)>,
) -> Option<&'a str> {
    let mut refused: Vec<&str> = Vec::new();
    for (id, was_refused) in replies.rev().filter(|(id, _)| is_plain(id)) {
        if refused.contains(&id) {
            continue;
        }
        if !was_refused {
            return Some(id);
        }
        refused.push(id);
    }
    None
}

fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    id.len() <= 128 && id.bytes().all(plain) && id.bytes().next().is_some_and(|first| first != b'-')
}

pub(super) fn null_as_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Parses each event from its own text. Within a file, an event as deeply nested as the parser
/// allows would be too deep, and a container could make its own session unreadable.
fn events<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StreamEvent>, D::Error> {
    let texts: Vec<Box<RawValue>> = null_as_default(deserializer)?;
    texts.iter().map(|text| parse_event(text.get()).map_err(D::Error::custom)).collect()
}

/// An event that the parser accepts, but would refuse one level deeper.
#[cfg(test)]
pub(super) fn deepest_event() -> String {
    let nested = |depth: usize| format!(r#"{{"type":"x","a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let depth = (1..1_000).rev().find(|depth| parse_event(&nested(*depth)).is_ok());
    nested(depth.unwrap())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(session_id: &str, is_error: bool, response_text: &str, events: &[&str]) -> SessionReply {
        SessionReply {
            session_id: session_id.to_owned(),
            is_error,
            response_text: response_text.to_owned(),
            events: events.iter().map(|event| parse_event(event).unwrap()).collect(),
            ..SessionReply::default()
        }
    }

    fn session(replies: Vec<SessionReply>) -> SessionMetadata {
        SessionMetadata { execution_context_id: "c".to_owned(), replies, ..SessionMetadata::default() }
    }

    const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"b"}"#;
    const FAILED: &str =
        r#"{"type":"result","subtype":"success","is_error":true,"session_id":"b","result":"API Error: 529"}"#;
    const REFUSED: &str = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"b","errors":["No conversation found with session ID: b"]}"#;

    #[test]
    fn newest_usable_session_is_resumed() {
        let cases: [(&str, Vec<SessionReply>, Option<&str>); 9] = [
            ("no replies", vec![], None),
            ("no id", vec![reply("", false, "x", &[])], None),
            ("the newest", vec![reply("a", false, "x", &[]), reply("b", false, "y", &[])], Some("b")),
            (
                "the newest that has one",
                vec![reply("a", false, "x", &[]), reply("", true, "", &[])],
                Some("a"),
            ),
            (
                "a failed turn",
                vec![reply("a", false, "x", &[]), reply("b", true, "", &[INIT, FAILED])],
                Some("b"),
            ),
            ("a cut off turn", vec![reply("b", true, "", &[INIT])], Some("b")),
            (
                "a refused id",
                vec![
                    reply("a", false, "x", &[]),
                    reply("b", false, "x", &[INIT]),
                    reply("b", true, "", &[REFUSED]),
                ],
                Some("a"),
            ),
            (
                "refused, then fresh",
                vec![reply("b", true, "", &[REFUSED]), reply("d", false, "x", &[])],
                Some("d"),
            ),
            ("an option", vec![reply("a", false, "x", &[]), reply("--help", false, "x", &[])], Some("a")),
        ];
        for (name, replies, expected) in cases {
            assert_eq!(session(replies).session_id_for_resume(), expected, "{name}");
        }
    }

    #[test]
    fn odd_session_ids_are_not_passed_on() {
        for id in ["-p", "a b", "a\n", "a/../b", "ä", &"a".repeat(129)] {
            assert_eq!(session(vec![reply(id, false, "x", &[])]).session_id_for_resume(), None, "{id:?}");
        }
        for id in ["7a1c", "0b6e2c1e-94ab-4b25-a0a5-6d0f1f0f9c11", "_a-b"] {
            assert_eq!(session(vec![reply(id, false, "x", &[])]).session_id_for_resume(), Some(id));
        }
    }

    #[test]
    fn last_successful_response_is_not_an_error_and_not_empty() {
        let replies = vec![
            reply("a", false, "old", &[]),
            reply("a", false, "good", &[]),
            reply("a", true, "API Error: 529", &[]),
            reply("a", false, "", &[]),
        ];
        assert_eq!(session(replies).last_successful_response(), Some("good"));
        assert_eq!(session(vec![]).last_successful_response(), None);
    }

    #[test]
    fn json_has_the_agreed_fields_in_the_agreed_order() {
        let json = serde_json::to_string(&session(vec![reply("b", false, "hi", &[INIT])])).unwrap();
        let expected = concat!(
            r#"{"execution_context_id":"c","model":null,"replies":[{"session_id":"b","timestamp":"","duration_ms":0,"#,
            r#""total_cost_usd":0.0,"num_turns":0,"is_error":false,"usage":{"input_tokens":0,"output_tokens":0,"#,
            r#""cache_creation_input_tokens":0,"cache_read_input_tokens":0},"request_text":"","response_text":"hi","#,
            r#""events":[{"session_id":"b","subtype":"init","type":"system"}]}]}"#,
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn absent_and_null_fields_are_default_and_unknown_ones_are_kept() {
        let json = json!({
            "execution_context_id": "c",
            "effort": "high",
            "replies": [{"session_id": null, "response_text": null, "usage": null, "events": null, "mood": {"a": [1.1]}}],
        });
        let read: SessionMetadata = serde_json::from_str(&json.to_string()).unwrap();
        assert_eq!(read.replies.first().unwrap().events, []);
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(written["effort"], "high");
        assert_eq!(written["replies"][0]["mood"], json!({"a": [1.1]}));
    }

    #[test]
    fn event_of_maximum_depth_is_read_back() {
        let mut depth = 126;
        let nested =
            |depth: usize| format!(r#"{{"type":"x","a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        while parse_event(&nested(depth + 1)).is_ok() {
            depth += 1;
        }
        let session = session(vec![reply("b", false, "", &[&nested(depth)])]);
        let json = serde_json::to_string(&session).unwrap();
        assert!(serde_json::from_str::<Value>(&json).is_err(), "the case is too shallow to show anything");
        assert_eq!(serde_json::from_str::<SessionMetadata>(&json).unwrap(), session);
    }
}
