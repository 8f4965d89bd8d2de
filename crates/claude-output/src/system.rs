//! Events of Claude Code itself: start, retries, background tasks.

use serde_json::Map;
use serde_json::Value;

use crate::fields::Fields;
use crate::fields::WrongType;

/// A `system` event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SystemEvent {
    /// The kind of event, such as `init` or `api_retry`.
    pub subtype: Option<String>,
    /// The content of the `init` event; absent for every other subtype.
    pub init: Option<SystemInit>,
    /// The content of the `api_retry` event; absent for every other subtype.
    pub retry: Option<Box<ApiRetry>>,
}

/// A request to the API failed, and Claude Code retries it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiRetry {
    /// The number of failed attempts.
    pub attempt: Option<u64>,
    /// The maximum number of retries.
    pub max_retries: Option<u64>,
    /// The delay before the retry, in milliseconds.
    pub delay_ms: Option<u64>,
    /// The HTTP status of the answer; absent without an answer.
    pub status: Option<u16>,
    /// The class of the error, such as `rate_limit` or `overloaded`.
    pub error: Option<String>,
}

/// Claude Code's report about itself at its start.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SystemInit {
    /// The full name of the model.
    pub model: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The tools that the model may call.
    pub tools: Vec<String>,
    /// The version of Claude Code.
    pub claude_code_version: Option<String>,
}

impl SystemEvent {
    pub(crate) fn read(object: &Map<String, Value>) -> Result<Self, WrongType> {
        let fields = Fields::new(object);
        let subtype = fields.string("subtype")?;
        // Other subtypes use the same names for other things.
        let init = if subtype.as_deref() == Some("init") {
            Some(SystemInit {
                model: fields.string("model")?,
                cwd: fields.string("cwd")?,
                tools: fields.strings("tools")?,
                claude_code_version: fields.string("claude_code_version")?,
            })
        } else {
            None
        };
        let retry = if subtype.as_deref() == Some("api_retry") {
            Some(Box::new(ApiRetry {
                attempt: fields.count("attempt")?,
                max_retries: fields.count("max_retries")?,
                delay_ms: fields.count("retry_delay_ms")?,
                status: fields.status("error_status")?,
                error: fields.string("error")?,
            }))
        } else {
            None
        };
        Ok(Self { subtype, init, retry })
    }
}
