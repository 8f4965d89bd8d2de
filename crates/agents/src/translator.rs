//! Translation of the output of an agent into events in the form of Claude Code's.
//!
//! A line that no rule matches is kept whole, in an event of the type `agent_event`: it is never
//! mistaken for an event of Claude Code.

use claude_output::{EventKind, StreamEvent};
use serde_json::{Map, Value, json};

use super::profile::Agent;
use super::rules::{ErrorRule, Rule, UsageRule, at, count, text};

/// Translates the lines of one execution.
#[derive(Debug)]
pub struct Translator {
    agent: Agent,
    session: Option<String>,
    /// The parts of a text that is not complete yet.
    parts: String,
    /// The last text of the model.
    answer: String,
    turn: Turn,
}

/// The usage of a turn.
#[derive(Debug, Default)]
struct Turn {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cost: f64,
}

impl Translator {
    /// The maximum length of a text in bytes; a longer one becomes several.
    const PARTS: usize = 1024 * 1024;
    /// The maximum length of a session id in bytes; a longer one is ignored.
    const SESSION: usize = 128;

    /// Returns `None` for Claude Code, whose events need no translation.
    #[must_use]
    pub fn new(agent: &Agent) -> Option<Self> {
        (!agent.is_claude()).then(|| Self {
            agent: agent.clone(),
            session: None,
            parts: String::new(),
            answer: String::new(),
            turn: Turn::default(),
        })
    }

    /// Returns the events that a line represents, in order.
    pub fn translate(&mut self, event: StreamEvent) -> Vec<StreamEvent> {
        if matches!(event.kind(), EventKind::Truncated(_)) {
            return vec![event];
        }
        let line = Value::Object(event.into_raw());
        let agent = self.agent.clone();
        let mut events = Vec::new();
        let mut is_known = false;
        for rule in agent.profile().events.iter().filter(|rule| rule.fits(&line)) {
            is_known = true;
            self.apply(rule, &line, &mut events);
        }
        if !is_known {
            events.push(self.event(json!({"type": "agent_event", "event": line})));
        }
        events
    }

    /// Returns the remaining events after the last line.
    pub fn finish(&mut self) -> Vec<StreamEvent> {
        self.end_text().into_iter().collect()
    }

    fn apply(&mut self, rule: &Rule, line: &Value, events: &mut Vec<StreamEvent>) {
        if let Some(part) = rule.part.as_ref().and_then(|place| text(line, place)) {
            self.parts.push_str(&part);
            if self.parts.len() < Self::PARTS {
                return;
            }
        }
        events.extend(self.end_text());
        // The id is in every event from then on, so its length must not be up to a task.
        let named = rule.session.as_ref().and_then(|place| text(line, place));
        if let Some(session) = named.filter(|session| session.len() <= Self::SESSION)
            && self.session.as_ref() != Some(&session)
        {
            self.session = Some(session);
            let model = rule.model.as_ref().and_then(|place| text(line, place));
            events.push(self.event(json!({"type": "system", "subtype": "init", "model": model})));
        }
        if let Some(whole) = rule.text.as_ref().and_then(|place| text(line, place)) {
            events.push(self.text_event(&whole));
        }
        if let Some(tool) = &rule.tool {
            let input = at(line, &tool.input).filter(|input| input.is_object()).cloned();
            let block = json!({"type": "tool_use", "id": text(line, &tool.id).unwrap_or_default(),
                "name": text(line, &tool.name).unwrap_or_default(), "input": input.unwrap_or_else(|| json!({}))});
            events.push(
                self.event(
                    json!({"type": "assistant", "message": {"role": "assistant", "content": [block]}}),
                ),
            );
        }
        if let Some(result) = &rule.tool_result {
            let status = text(line, &result.status).unwrap_or_default();
            let block = json!({"type": "tool_result", "tool_use_id": text(line, &result.id).unwrap_or_default(),
                "content": text(line, &result.output).unwrap_or_default(), "is_error": result.failed.contains(&status)});
            events.push(self.event(json!({"type": "user", "message": {"role": "user", "content": [block]}})));
        }
        if let Some(error) = &rule.retry {
            events.push(self.event(json!({"type": "system", "subtype": "api_retry",
                "error_status": error.status(line), "message": error.message(line)})));
        }
        if let Some(usage) = &rule.usage {
            self.turn.add(usage, line);
        }
        let cost = rule.cost.as_ref().and_then(|place| at(line, place)).and_then(Value::as_f64);
        self.turn.cost += cost.unwrap_or_default();
        if let Some(error) = &rule.failure {
            events.extend(self.failed(error, line));
        } else if rule.success {
            let result = std::mem::take(&mut self.answer);
            events.push(self.result(json!({"is_error": false, "subtype": "success", "result": result})));
        }
    }

    /// The text of the parts so far, if there are any.
    fn end_text(&mut self) -> Option<StreamEvent> {
        let parts = std::mem::take(&mut self.parts);
        (!parts.is_empty()).then(|| self.text_event(&parts))
    }

    fn text_event(&mut self, text: &str) -> StreamEvent {
        text.clone_into(&mut self.answer);
        let content = json!([{"type": "text", "text": text}]);
        self.event(json!({"type": "assistant", "message": {"role": "assistant", "content": content}}))
    }

    /// An API error is a separate message, as in Claude Code: it is found even if the result is
    /// dropped.
    fn failed(&mut self, error: &ErrorRule, line: &Value) -> Vec<StreamEvent> {
        let (status, message) = (error.status(line), error.message(line));
        let content = json!([{"type": "text", "text": &message}]);
        let reported = status.map(|status| {
            self.event(json!({"type": "assistant", "is_api_error_message": true, "api_error_status": status,
                "message": {"role": "assistant", "content": content}}))
        });
        let result = self
            .result(json!({"is_error": true, "subtype": "error_during_execution", "result": message,
            "api_error_status": status}));
        reported.into_iter().chain([result]).collect()
    }

    fn result(&mut self, facts: Value) -> StreamEvent {
        let turn = std::mem::take(&mut self.turn);
        let mut event = object(facts);
        event.insert("type".to_owned(), json!("result"));
        event.insert(
            "usage".to_owned(),
            json!({"input_tokens": turn.input, "output_tokens": turn.output,
                "cache_read_input_tokens": turn.cache_read, "cache_creation_input_tokens": turn.cache_write}),
        );
        // Not every agent reports its cost.
        if turn.cost > 0.0 {
            event.insert("total_cost_usd".to_owned(), json!(turn.cost));
        }
        self.event(Value::Object(event))
    }

    /// An event of this session.
    fn event(&self, facts: Value) -> StreamEvent {
        let mut event = object(facts);
        if let Some(session) = &self.session {
            event.insert("session_id".to_owned(), json!(session));
        }
        event.into()
    }
}

impl Turn {
    fn add(&mut self, usage: &UsageRule, line: &Value) {
        let cached = count(line, &usage.cache_read);
        let input = count(line, &usage.input);
        let input = if usage.input_has_cached { input.saturating_sub(cached) } else { input };
        for (sum, more) in [
            (&mut self.input, input),
            (&mut self.output, count(line, &usage.output)),
            (&mut self.cache_read, cached),
            (&mut self.cache_write, count(line, &usage.cache_write)),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests;
