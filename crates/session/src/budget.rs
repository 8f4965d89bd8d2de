//! Limits how much of a reply is kept: a container must not fill the host's memory and disk with
//! its events.

use claude_output::{EventKind, MessageEvent, StreamEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The maximum weight of a reply's events: 128 MiB, several times that of the longest honest run.
const EVENTS: u64 = 128 * 1024 * 1024;
/// Additional room for events that report how the run ended: 16 MiB.
const RESERVE: u64 = 16 * 1024 * 1024;
/// The memory of a value, excluding its text.
const VALUE: u64 = 64;
/// The memory of an object, excluding its members.
const OBJECT: u64 = 1024;

/// Events of a reply that were not kept because the earlier ones had reached the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(default)]
pub struct MissingEvents {
    /// Their number.
    pub events: u64,
    /// The bytes of their JSON.
    pub bytes: u64,
}

/// The room that is left.
#[derive(Debug)]
pub(super) struct Budget {
    events: u64,
    reserve: u64,
}

impl MissingEvents {
    /// Whether every event was kept.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.events == 0
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.events += 1;
        self.bytes += bytes;
    }
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { events: EVENTS, reserve: RESERVE }
    }

    /// Whether to keep an event whose JSON has so many bytes. After the first refusal, only events
    /// that report how the run ended are kept: so the missing events are consecutive.
    pub(super) fn admit(&mut self, event: &StreamEvent, bytes: u64) -> bool {
        let weight = weight(event, bytes);
        if let Some(left) = self.events.checked_sub(weight) {
            self.events = left;
            return true;
        }
        self.events = 0;
        match self.reserve.checked_sub(weight) {
            Some(left) if is_final(event) => {
                self.reserve = left;
                true
            }
            _ => false,
        }
    }
}

/// The weight of an event: its JSON, its parsed meaning, which is kept with it, and the part of it
/// that the reply's text may repeat. On the disk it takes no more than that.
fn weight(event: &StreamEvent, bytes: u64) -> u64 {
    let came = bytes + overhead(event.raw());
    let meant = if *event.kind() == EventKind::Unknown { 0 } else { came };
    let result = event.as_result().and_then(|result| result.result.as_deref());
    let texts = event.as_main_assistant().into_iter().flat_map(MessageEvent::texts).chain(result);
    came + meant + texts.map(|text| text.len() as u64).sum::<u64>()
}

/// Whether it is a result, or the message of an API error, which has the error's class.
fn is_final(event: &StreamEvent) -> bool {
    match event.kind() {
        EventKind::Result(_) => true,
        EventKind::Assistant(message) => message.is_api_error,
        _ => false,
    }
}

/// Recursion is bounded by the parser's nesting limit.
fn overhead(object: &Map<String, Value>) -> u64 {
    OBJECT + object.values().map(overhead_of).sum::<u64>()
}

fn overhead_of(value: &Value) -> u64 {
    match value {
        Value::Object(object) => overhead(object),
        Value::Array(values) => VALUE + values.iter().map(overhead_of).sum::<u64>(),
        _ => VALUE,
    }
}

#[cfg(test)]
impl Budget {
    /// A small budget.
    pub(super) fn of(events: u64, reserve: u64) -> Self {
        Self { events, reserve }
    }
}

#[cfg(test)]
mod tests {
    use claude_output::parse_event;

    use super::*;

    const ROOM: u64 = 1 << 20;

    fn kept(budget: &mut Budget, text: &str) -> bool {
        budget.admit(&parse_event(text).unwrap(), text.len() as u64)
    }

    /// How many copies of the event are kept until one is not.
    fn kept_of(budget: &mut Budget, text: &str) -> u64 {
        (0..100_000).find(|_| !kept(budget, text)).expect("there is a limit")
    }

    #[test]
    fn event_small_on_the_wire_and_large_in_memory_counts_as_large() {
        let count = |text: &str| kept_of(&mut Budget::of(ROOM, 0), text);
        let small = count(r#"{"type":"x"}"#);
        assert!(small * OBJECT <= ROOM && small > 900, "{small}");
        let zeros = count(&format!(r#"{{"type":"x","a":[{}0]}}"#, "0,".repeat(999)));
        assert!(zeros * 1_000 * VALUE <= ROOM && zeros > 10, "{zeros}");
        let objects = count(&format!(r#"{{"type":"x","a":[{}0]}}"#, r#"{"a":0},"#.repeat(99)));
        assert!(objects * 100 * OBJECT <= ROOM + OBJECT && objects > 5, "{objects}");
        let text = count(&format!(r#"{{"type":"x","a":"{}"}}"#, "a".repeat(1 << 14)));
        assert!((55..64).contains(&text), "the control: text counts as itself: {text}");
    }

    #[test]
    fn text_kept_several_times_counts_several_times() {
        let text = "a".repeat(1 << 14);
        let count = |event: &str| kept_of(&mut Budget::of(ROOM, 0), &event.replace("TEXT", &text));
        let message = r#"{"type":"TYPE","message":{"content":[{"type":"text","text":"TEXT"}]}}"#;
        assert!((55..64).contains(&count(r#"{"type":"x","text":"TEXT"}"#)), "the control: as it came");
        assert!((24..32).contains(&count(&message.replace("TYPE", "user"))), "and as it is understood");
        assert!((17..22).contains(&count(&message.replace("TYPE", "assistant"))), "and in the answer");
        assert!((17..22).contains(&count(r#"{"type":"result","result":"TEXT"}"#)), "and in the answer");
    }

    #[test]
    fn beyond_the_limit_only_final_events_are_kept_and_not_without_end() {
        let mut budget = Budget::of(ROOM, ROOM / 8);
        kept_of(&mut budget, &format!(r#"{{"type":"x","a":"{}"}}"#, "a".repeat(1 << 16)));
        assert!(!kept(&mut budget, r#"{"type":"x"}"#), "the missing events are consecutive");
        let error = r#"{"type":"assistant","is_api_error_message":true,"error":"rate_limit","message":{"content":[]}}"#;
        assert!(kept(&mut budget, error));
        assert!(!kept(&mut budget, r#"{"type":"assistant","message":{"content":[]}}"#));
        let result = format!(r#"{{"type":"result","result":"{}"}}"#, "a".repeat(1 << 14));
        assert_eq!(kept_of(&mut budget, &result), 2);
        assert!(kept(&mut budget, r#"{"type":"result"}"#), "the control: a small one");
    }
}
