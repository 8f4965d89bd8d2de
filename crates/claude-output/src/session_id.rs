//! The id for resuming a session.

use crate::event::StreamEvent;

/// The session's id: that of the last result with one, else of the `init` event, else of the newest
/// event with one.
///
/// The fallbacks are for an interrupted run, which has no result.
#[must_use]
pub fn extract_session_id(events: &[StreamEvent]) -> Option<&str> {
    let newest_first = || events.iter().rev();
    let result = newest_first().find_map(|event| event.as_result()?.session_id.as_deref());
    let init = || {
        let is_init =
            |event: &&StreamEvent| event.event_type() == "system" && event.subtype() == Some("init");
        newest_first().filter(is_init).find_map(StreamEvent::session_id)
    };
    result.or_else(init).or_else(|| newest_first().find_map(StreamEvent::session_id))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    #[test]
    fn best_source_of_the_session_id_wins() {
        let init = json!({"type": "system", "subtype": "init", "session_id": "init"});
        let other = json!({"type": "rate_limit_event", "session_id": "other"});
        let result = |id: &str| json!({"type": "result", "session_id": id});
        let cases = [
            (vec![], None),
            (vec![json!({"type": "assistant", "session_id": ""})], None),
            (vec![other.clone()], Some("other")),
            (vec![init.clone(), other.clone()], Some("init")),
            (vec![init.clone(), result("a"), result("b"), other.clone()], Some("b")),
            (vec![init, result("a"), result("")], Some("a")),
        ];
        for (events, expected) in cases {
            let typed: Vec<StreamEvent> = serde_json::from_value(Value::Array(events.clone())).unwrap();
            assert_eq!(extract_session_id(&typed), expected, "{events:?}");
        }
    }
}
