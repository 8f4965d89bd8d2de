//! What the body of a request says about the conversation so far.

use serde_json::Value;

/// The parts of a conversation that the stand-in answers to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conversation {
    /// What the user wrote, oldest first, without the reminders that Claude Code adds.
    pub prompts: Vec<String>,
    /// The text of the last tool result that came after the newest prompt.
    pub tool_result: Option<String>,
    /// How many tool results came after the newest prompt.
    pub tool_rounds: usize,
}

impl Conversation {
    /// Reads the `messages` of a request body; what is not in the API's shape is skipped.
    #[must_use]
    pub fn read(body: &Value) -> Self {
        let mut conversation = Self::default();
        let messages = body.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for message in messages.iter().filter(|message| field(message, "role") == Some("user")) {
            conversation.read_user_message(message);
        }
        conversation
    }

    /// The newest prompt, or nothing.
    #[must_use]
    pub fn newest_prompt(&self) -> &str {
        self.prompts.last().map_or("", String::as_str)
    }

    fn read_user_message(&mut self, message: &Value) {
        let mut texts = Vec::new();
        let mut results = Vec::new();
        match message.get("content") {
            Some(Value::String(text)) => texts.push(text.as_str()),
            Some(Value::Array(blocks)) => {
                for block in blocks {
                    match field(block, "type") {
                        Some("text") => texts.extend(field(block, "text")),
                        Some("tool_result") => results.push(block),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if !results.is_empty() {
            self.tool_rounds += 1;
            self.tool_result =
                Some(results.iter().map(|block| result_text(block)).collect::<Vec<_>>().join("\n"));
            return;
        }
        let prompt: Vec<_> = texts.into_iter().map(str::trim).filter(|text| !is_reminder(text)).collect();
        if !prompt.is_empty() {
            self.prompts.push(prompt.join("\n"));
            self.tool_result = None;
            self.tool_rounds = 0;
        }
    }
}

/// Whether a text block is one that Claude Code put in, not the user.
fn is_reminder(text: &str) -> bool {
    text.is_empty() || text.starts_with("<system-reminder>")
}

fn result_text(block: &Value) -> String {
    match block.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| field(part, "text")).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn field<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompts_are_distinguished_from_reminders_and_tool_results() {
        let body = json!({"messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>be good</system-reminder>"},
                {"type": "text", "text": "first"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "reply"}]},
            {"role": "user", "content": "second"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "printed"}]},
        ]});
        let expected = Conversation {
            prompts: vec!["first".to_owned(), "second".to_owned()],
            tool_result: Some("printed".to_owned()),
            tool_rounds: 1,
        };
        assert_eq!(Conversation::read(&body), expected);
    }

    #[test]
    fn a_foreign_body_is_an_empty_conversation() {
        for body in [json!(null), json!({"messages": 3}), json!({"messages": [1, {"role": "user"}]})] {
            assert_eq!(Conversation::read(&body), Conversation::default(), "{body}");
        }
    }
}
