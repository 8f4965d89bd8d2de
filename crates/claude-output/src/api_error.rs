//! The last error of the API, even if a run was interrupted before its result.

use serde::Serialize;

use crate::event::EventKind;
use crate::event::StreamEvent;
use crate::fields::Fields;
use crate::fields::WrongType;

/// An error that the API returned, or that prevented its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ApiError {
    /// The HTTP status; absent without an answer.
    pub status: Option<u16>,
    /// Claude Code's class of the error, such as `rate_limit` or `overloaded`.
    pub class: Option<String>,
    /// Claude Code's name for it, such as `connection_failed`; few errors have one.
    pub name: Option<String>,
    /// The type in the API's answer, such as `overloaded_error`.
    pub error_type: Option<String>,
    /// The id in the answer's header `request-id`.
    pub request_id: Option<String>,
    /// Claude Code's message; absent while it retries.
    pub text: Option<String>,
    /// The number of consecutive errors up to this one, without a response of the model between
    /// them.
    pub in_a_row: u64,
    /// Whether no response of the model followed.
    pub is_unresolved: bool,
}

/// The last API error that Claude Code reported, by a retry or by a message instead of the model's;
/// `None` if there was none.
#[must_use]
pub fn extract_api_error(events: &[StreamEvent]) -> Option<ApiError> {
    let mut last: Option<ApiError> = None;
    for event in events {
        if let Some(error) = ApiError::read(event) {
            let before = last.as_ref().filter(|last| last.is_unresolved);
            let in_a_row = before.map_or(0, |before| before.in_a_row) + 1;
            last = Some(ApiError { in_a_row, is_unresolved: true, ..error });
        } else if event.is_from_model()
            && let Some(last) = &mut last
        {
            last.is_unresolved = false;
        }
    }
    last
}

impl ApiError {
    /// The error that `event` reports.
    pub(crate) fn read(event: &StreamEvent) -> Option<Self> {
        match event.kind() {
            EventKind::System(system) => {
                let retry = system.retry.as_ref()?;
                Some(Self { status: retry.status, class: retry.error.clone(), ..Self::default() })
            }
            // The caller of a subagent handles its errors.
            EventKind::Assistant(message) if message.is_api_error && event.parent_tool_use_id().is_none() => {
                let texts: Vec<&str> = message.texts().collect();
                let text = Some(texts.join("\n")).filter(|text| !text.is_empty());
                // Unreadable details do not affect the rest.
                let details = Self::details(event).unwrap_or_default();
                Some(Self { class: message.error.clone(), text, ..details })
            }
            _ => None,
        }
    }

    fn details(event: &StreamEvent) -> Result<Self, WrongType> {
        let fields = Fields::new(event.raw());
        Ok(Self {
            status: fields.status("api_error_status")?,
            name: fields.string("api_error")?,
            error_type: fields.string("api_error_type")?,
            request_id: fields.string("request_id")?,
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    fn last(events: Value) -> Option<ApiError> {
        let events: Vec<StreamEvent> = serde_json::from_value(events).unwrap();
        extract_api_error(&events)
    }

    fn retry(status: u16, class: &str) -> Value {
        json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": status, "error": class})
    }

    #[test]
    fn errors_in_a_row_are_counted_until_the_model_answers() {
        let answer = json!({"type": "assistant", "message": {"model": "m", "content": "hi"}});
        let reported = json!({"type": "assistant", "is_api_error_message": true, "error": "server_error", "api_error_status": 529,
            "request_id": "r", "message": {"model": "<synthetic>", "content": "API Error: 529"}});
        let init = json!({"type": "system", "subtype": "init"});
        assert_eq!(last(json!([init, answer])), None);

        let error = last(json!([init, retry(429, "rate_limit"), init, retry(529, "overloaded")])).unwrap();
        assert_eq!((error.status, error.class.as_deref()), (Some(529), Some("overloaded")));
        assert_eq!((error.in_a_row, error.is_unresolved, error.text), (2, true, None));

        let error = last(json!([retry(529, "x"), answer, retry(529, "x"), reported])).unwrap();
        assert_eq!((error.in_a_row, error.is_unresolved), (2, true));
        assert_eq!((error.text.as_deref(), error.request_id.as_deref()), (Some("API Error: 529"), Some("r")));

        let error = last(json!([retry(529, "x"), retry(529, "x"), answer])).unwrap();
        assert_eq!((error.in_a_row, error.is_unresolved), (2, false));
    }

    #[test]
    fn error_of_a_subagent_or_of_a_wrong_type_is_ignored() {
        let mut inner = json!({"type": "assistant", "is_api_error_message": true, "parent_tool_use_id": "t"});
        inner["message"] = json!({"content": "API Error: 401"});
        assert_eq!(last(json!([inner])), None);
        let odd = json!({"type": "assistant", "is_api_error_message": true, "api_error_status": "x", "error": "unknown",
            "message": {"content": "API Error"}});
        let error = last(json!([odd])).unwrap();
        assert_eq!((error.status, error.text.as_deref()), (None, Some("API Error")));
    }
}
