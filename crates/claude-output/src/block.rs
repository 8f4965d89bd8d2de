//! The content blocks of a message.

use serde_json::Map;
use serde_json::Value;

use crate::fields::Fields;
use crate::fields::WrongType;

/// One block of a message's content.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text of the model or of the user.
    Text(String),
    /// The model's reasoning before its answer.
    Thinking(String),
    /// A call of a tool.
    ToolUse(ToolUse),
    /// The result of a tool.
    ToolResult(ToolResult),
    /// A block of another kind, or with a field that this crate does not understand.
    Unknown(Value),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolUse {
    /// Identifies this call in its result.
    pub id: String,
    /// The tool, such as `Bash`.
    pub name: String,
    /// The tool's arguments, `null` if there are none.
    pub input: Value,
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The [`ToolUse::id`] of the call.
    pub tool_use_id: String,
    /// The content of the result.
    pub content: ToolResultContent,
    /// Whether the tool failed. Default false.
    pub is_error: bool,
}

/// The content of a tool's result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ToolResultContent {
    /// A text; empty without content.
    Text(String),
    /// A list of blocks.
    Blocks(Vec<ContentBlock>),
}

impl ContentBlock {
    /// Reads one block; never fails, because unknown blocks are kept as [`ContentBlock::Unknown`].
    pub(crate) fn read(value: &Value) -> Self {
        value
            .as_object()
            .and_then(|object| known(object).ok())
            .flatten()
            .unwrap_or_else(|| Self::Unknown(value.clone()))
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl ToolResult {
    /// The text of the result: if it is a list, its text blocks joined by newlines.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.content {
            ToolResultContent::Text(text) => text.clone(),
            ToolResultContent::Blocks(blocks) => {
                blocks.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// The content of a message: a list of blocks, or a string as short form of one text block.
pub(crate) fn read_content(content: Option<&Value>) -> Result<Vec<ContentBlock>, WrongType> {
    match content {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![ContentBlock::Text(text.clone())]),
        Some(Value::Array(blocks)) => Ok(blocks.iter().map(ContentBlock::read).collect()),
        Some(_) => Err(WrongType),
    }
}

/// The block, `None` if its kind is unknown.
fn known(object: &Map<String, Value>) -> Result<Option<ContentBlock>, WrongType> {
    let fields = Fields::new(object);
    let required = |name| fields.string(name)?.ok_or(WrongType);
    Ok(Some(match required("type")?.as_str() {
        "text" => ContentBlock::Text(required("text")?),
        "thinking" => ContentBlock::Thinking(required("thinking")?),
        "tool_use" => ContentBlock::ToolUse(ToolUse {
            id: required("id")?,
            name: required("name")?,
            input: object.get("input").cloned().unwrap_or_default(),
        }),
        "tool_result" => ContentBlock::ToolResult(ToolResult {
            tool_use_id: required("tool_use_id")?,
            content: read_tool_result_content(fields.value("content"))?,
            is_error: fields.boolean("is_error")?.unwrap_or(false),
        }),
        _ => return Ok(None),
    }))
}

fn read_tool_result_content(content: Option<&Value>) -> Result<ToolResultContent, WrongType> {
    match content {
        None => Ok(ToolResultContent::Text(String::new())),
        Some(Value::String(text)) => Ok(ToolResultContent::Text(text.clone())),
        Some(Value::Array(blocks)) => {
            Ok(ToolResultContent::Blocks(blocks.iter().map(ContentBlock::read).collect()))
        }
        Some(_) => Err(WrongType),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_blocks_are_typed() {
        let cases = [
            (json!({"type": "text", "text": "a", "citations": null}), ContentBlock::Text("a".to_owned())),
            (
                json!({"type": "thinking", "thinking": "b", "signature": "s"}),
                ContentBlock::Thinking("b".to_owned()),
            ),
            (
                json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}),
                ContentBlock::ToolUse(ToolUse {
                    id: "t".to_owned(),
                    name: "Bash".to_owned(),
                    input: json!({"command": "ls"}),
                }),
            ),
            (
                json!({"type": "tool_result", "tool_use_id": "t", "content": null, "is_error": null}),
                ContentBlock::ToolResult(ToolResult {
                    tool_use_id: "t".to_owned(),
                    content: ToolResultContent::Text(String::new()),
                    is_error: false,
                }),
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(ContentBlock::read(&json), expected, "{json}");
        }
    }

    #[test]
    fn unknown_block_is_kept_unchanged() {
        let cases = [
            json!({"type": "image", "source": {"data": "…"}}),
            json!({"type": "text", "text": 3}),
            json!({"type": "text"}),
            json!({"type": "tool_use", "id": 1, "name": "Bash"}),
            json!({"type": "tool_result", "tool_use_id": "t", "is_error": "false"}),
            json!({"type": "tool_result", "tool_use_id": "t", "content": 5}),
            json!({"type": 5}),
            json!("text"),
            json!(null),
        ];
        for json in cases {
            assert_eq!(ContentBlock::read(&json), ContentBlock::Unknown(json.clone()));
        }
    }

    #[test]
    fn text_of_a_tool_result_skips_other_blocks() {
        let json = json!({"type": "tool_result", "tool_use_id": "t", "content": [
            {"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]});
        let ContentBlock::ToolResult(result) = ContentBlock::read(&json) else { panic!("{json}") };
        assert_eq!(result.text(), "a\nb");
    }
}
