//! The event that ends a run, or one of several turns of a run.

use serde_json::Map;
use serde_json::Value;

use crate::fields::Fields;
use crate::fields::WrongType;
use crate::message::read_usage;
use crate::usage::Usage;

/// A `result` event.
///
/// An API error is reported with `is_error` *and* the subtype `success`, a limit with a subtype
/// such as `error_max_turns`, in some versions without `is_error`: use
/// [`has_failed`](Self::has_failed).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ResultEvent {
    /// Whether Claude Code reports it as an error. Default false.
    pub is_error: bool,
    /// `success`, or the reason why Claude Code itself stopped, such as `error_max_turns`.
    pub subtype: Option<String>,
    /// The reason for the end of the turn, such as `completed`, `api_error`, `prompt_too_long` or
    /// `image_error`.
    pub terminal_reason: Option<String>,
    /// The HTTP status of the API's error answer; absent without an answer.
    pub api_error_status: Option<u16>,
    /// Claude Code's name for the API error, such as `connection_failed`; few errors have one.
    pub api_error: Option<String>,
    /// The type in the API's error answer, such as `overloaded_error`.
    pub api_error_type: Option<String>,
    /// The text of the reply, or of the error.
    pub result: Option<String>,
    /// The errors of a turn that has no [`result`](Self::result).
    pub errors: Vec<String>,
    /// The duration of the turn, in milliseconds.
    pub duration_ms: Option<u64>,
    /// The number of messages of the model.
    pub num_turns: Option<u64>,
    /// The cost of the run so far, in US dollars at list price.
    pub total_cost_usd: Option<f64>,
    /// The tokens of this turn.
    pub usage: Option<Usage>,
    /// The id to resume with. An empty one counts as absent.
    pub session_id: Option<String>,
}

impl ResultEvent {
    pub(crate) fn read(object: &Map<String, Value>) -> Result<Self, WrongType> {
        let fields = Fields::new(object);
        Ok(Self {
            is_error: fields.boolean("is_error")?.unwrap_or(false),
            subtype: fields.string("subtype")?,
            terminal_reason: fields.string("terminal_reason")?,
            api_error_status: fields.status("api_error_status")?,
            api_error: fields.string("api_error")?,
            api_error_type: fields.string("api_error_type")?,
            result: fields.string("result")?,
            errors: fields.strings("errors")?,
            duration_ms: fields.count("duration_ms")?,
            num_turns: fields.count("num_turns")?,
            total_cost_usd: fields.float("total_cost_usd")?,
            usage: read_usage(fields)?,
            session_id: fields.string("session_id")?.filter(|id| !id.is_empty()),
        })
    }

    /// Whether the turn failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.is_error || self.subtype.as_deref().is_some_and(|subtype| subtype.starts_with("error_"))
    }

    /// The description of the failure: the result's text, else its errors joined by newlines.
    /// `None` if the turn did not fail, or failed without a message.
    #[must_use]
    pub fn error_text(&self) -> Option<String> {
        if !self.has_failed() {
            return None;
        }
        let text = self.result.clone().unwrap_or_default();
        let text = if text.is_empty() { self.errors.join("\n") } else { text };
        Some(text).filter(|text| !text.is_empty())
    }
}
