//! Events that carry a message of the conversation.

use serde_json::Map;
use serde_json::Value;

use crate::block::ContentBlock;
use crate::block::read_content;
use crate::fields::Fields;
use crate::fields::WrongType;
use crate::usage::Usage;

/// An `assistant` or `user` event.
///
/// Claude Code prints one event for each complete block, so several consecutive events may belong
/// to one message: they have the same [`message_id`](Self::message_id).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MessageEvent {
    /// The message's id. Messages of the user have none.
    pub message_id: Option<String>,
    /// The model that wrote it; `<synthetic>` for messages that Claude Code wrote instead.
    pub model: Option<String>,
    /// The blocks, in order. A string is one text block.
    pub content: Vec<ContentBlock>,
    /// The tokens so far; the final count is in the result event.
    pub usage: Option<Usage>,
    /// Whether Claude Code wrote this message to report an API error.
    pub is_api_error: bool,
    /// The class of that error, such as `rate_limit`, `billing_error` or `authentication_failed`.
    pub error: Option<String>,
}

impl MessageEvent {
    pub(crate) fn read(object: &Map<String, Value>) -> Result<Self, WrongType> {
        let event = Fields::new(object);
        let empty = Map::new();
        let message = Fields::new(event.object("message")?.unwrap_or(&empty));
        Ok(Self {
            message_id: message.string("id")?,
            model: message.string("model")?,
            content: read_content(message.value("content"))?,
            usage: read_usage(message)?,
            is_api_error: event.boolean("is_api_error_message")?.unwrap_or(false),
            error: event.string("error")?,
        })
    }

    /// The non-empty text blocks.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.content.iter().filter_map(ContentBlock::as_text).filter(|text| !text.is_empty())
    }
}

/// The `usage` field of a message or of a result.
pub(crate) fn read_usage(fields: Fields<'_>) -> Result<Option<Usage>, WrongType> {
    let usage = fields.value("usage").cloned();
    usage.map(|usage| serde_json::from_value(usage).map_err(|_| WrongType)).transpose()
}
