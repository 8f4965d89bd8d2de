//! The text of a run's reply.

use crate::event::StreamEvent;
use crate::message::MessageEvent;

/// The text of the reply: the non-empty texts of the results, joined by blank lines.
///
/// Without results, it is the last non-empty text of a message of the model, its blocks joined by
/// newlines; events with one message id are one message. Output of a subagent is not part of it.
/// Empty if there is no text.
#[must_use]
pub fn extract_response_text(events: &[StreamEvent]) -> String {
    let results: Vec<_> = events
        .iter()
        .filter_map(|event| event.as_result()?.result.as_deref())
        .filter(|text| !text.is_empty())
        .collect();
    if results.is_empty() { last_message(events).join("\n") } else { results.join("\n\n") }
}

fn last_message(events: &[StreamEvent]) -> Vec<&str> {
    let messages = || events.iter().filter_map(StreamEvent::as_main_assistant);
    let Some(last) = messages().rfind(|message| message.texts().next().is_some()) else {
        return Vec::new();
    };
    if last.message_id.is_none() {
        return last.texts().collect();
    }
    messages().filter(|message| message.message_id == last.message_id).flat_map(MessageEvent::texts).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    fn reply(id: Option<&str>, parent: Option<&str>, text: &str) -> Value {
        json!({"type": "assistant", "parent_tool_use_id": parent,
            "message": {"id": id, "content": [{"type": "text", "text": text}]}})
    }

    fn result(text: Option<&str>) -> Value {
        json!({"type": "result", "result": text})
    }

    #[test]
    fn text_of_a_reply() {
        let tool = json!({"type": "assistant", "message": {"id": "m", "content": [
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]}});
        let cases = [
            (vec![], ""),
            (vec![result(Some("a"))], "a"),
            (vec![result(Some("a")), result(Some("")), result(None), result(Some("b"))], "a\n\nb"),
            (vec![reply(Some("m"), None, "x"), result(Some("a"))], "a"),
            (vec![reply(Some("m"), None, "x"), result(Some(""))], "x"),
            (vec![reply(Some("m"), None, "x"), reply(Some("n"), None, "y")], "y"),
            (vec![reply(Some("m"), None, "x"), tool.clone(), reply(Some("m"), None, "y")], "x\ny"),
            (vec![reply(Some("n"), None, "x"), tool], "x"),
            (vec![reply(None, None, "x"), reply(None, None, "y")], "y"),
            (vec![reply(Some("m"), None, "x"), reply(Some("s"), Some("t"), "y")], "x"),
            (vec![reply(Some("m"), None, "x"), reply(Some("n"), None, "")], "x"),
        ];
        for (events, expected) in cases {
            let typed: Vec<StreamEvent> = serde_json::from_value(Value::Array(events.clone())).unwrap();
            assert_eq!(extract_response_text(&typed), expected, "{events:?}");
        }
    }
}
