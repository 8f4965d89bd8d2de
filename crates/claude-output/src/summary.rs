//! The cost and the outcome of a run.

use crate::api_error::ApiError;
use crate::event::StreamEvent;
use crate::result::ResultEvent;
use crate::usage::Usage;

/// The combined results of one run.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ResultSummary {
    /// The id to resume with, of the last result with one.
    pub session_id: Option<String>,
    /// The sum of the results' durations, in milliseconds.
    pub duration_ms: u64,
    /// The sum of the results' turns.
    pub num_turns: u64,
    /// The cost in US dollars, of the last result with one: each covers the whole run so far.
    pub total_cost_usd: Option<f64>,
    /// The tokens, of the last result with any.
    pub usage: Option<Usage>,
    /// The error of the last result, if it failed.
    pub error: Option<ResultError>,
}

/// Claude Code's report of a failed turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultError {
    /// See [`ResultEvent::subtype`]; `success` for an API error.
    pub subtype: Option<String>,
    /// See [`ResultEvent::terminal_reason`].
    pub terminal_reason: Option<String>,
    /// The HTTP status of the API's answer.
    pub api_error_status: Option<u16>,
    /// See [`ResultEvent::api_error`].
    pub api_error: Option<String>,
    /// The type in the API's error answer.
    pub api_error_type: Option<String>,
    /// Claude Code's class of the error, such as `billing_error`: the
    /// [`error`](crate::MessageEvent::error) of the message that reported it. A status alone can
    /// mislead: a key without credit gets 400.
    pub class: Option<String>,
    /// The id of the API's error answer, like [`ApiError::request_id`].
    pub request_id: Option<String>,
    /// See [`ResultEvent::error_text`].
    pub text: Option<String>,
}

/// The combined results among the events; `None` if there is no result, as in an interrupted run.
#[must_use]
pub fn extract_result_summary(events: &[StreamEvent]) -> Option<ResultSummary> {
    let mut summary = None;
    let mut reported = None;
    for event in events {
        if event.as_main_assistant().is_some_and(|message| message.is_api_error) {
            reported = ApiError::read(event);
        } else if let Some(result) = event.as_result() {
            let reported = reported.take().unwrap_or_default();
            let error = result.has_failed().then(|| ResultError::new(result, reported));
            add(summary.get_or_insert_default(), result, error);
        }
    }
    summary
}

fn add(summary: &mut ResultSummary, result: &ResultEvent, error: Option<ResultError>) {
    summary.duration_ms = summary.duration_ms.saturating_add(result.duration_ms.unwrap_or_default());
    summary.num_turns = summary.num_turns.saturating_add(result.num_turns.unwrap_or_default());
    summary.total_cost_usd = result.total_cost_usd.or(summary.total_cost_usd);
    if let Some(usage) = &result.usage {
        summary.usage = Some(usage.clone());
    }
    if let Some(id) = &result.session_id {
        summary.session_id = Some(id.clone());
    }
    summary.error = error;
}

impl From<ApiError> for ResultError {
    /// The error as a result would have reported it.
    fn from(error: ApiError) -> Self {
        Self {
            subtype: None,
            terminal_reason: None,
            api_error_status: error.status,
            api_error: error.name,
            api_error_type: error.error_type,
            class: error.class,
            request_id: error.request_id,
            text: error.text,
        }
    }
}

impl ResultError {
    fn new(result: &ResultEvent, reported: ApiError) -> Self {
        Self {
            subtype: result.subtype.clone(),
            terminal_reason: result.terminal_reason.clone(),
            api_error_status: result.api_error_status,
            api_error: result.api_error.clone(),
            api_error_type: result.api_error_type.clone(),
            class: reported.class,
            request_id: reported.request_id,
            text: result.error_text(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::*;

    fn summary(events: Value) -> Option<ResultSummary> {
        let events: Vec<StreamEvent> = serde_json::from_value(events).unwrap();
        extract_result_summary(&events)
    }

    #[test]
    fn run_without_a_result_has_no_summary() {
        assert_eq!(summary(json!([{"type": "system", "subtype": "init", "session_id": "a"}])), None);
    }

    #[test]
    fn durations_are_summed_and_the_rest_is_of_the_last_result() {
        let summary = summary(json!([
            {"type": "result", "duration_ms": 5, "num_turns": 2, "total_cost_usd": 0.1, "session_id": "a",
                "usage": {"input_tokens": 1}},
            {"type": "result", "duration_ms": 7, "num_turns": 1, "total_cost_usd": 0.3, "usage": {"input_tokens": 2}},
            {"type": "result", "duration_ms": 18_446_744_073_709_551_615_u64},
        ]))
        .unwrap();
        assert_eq!((summary.duration_ms, summary.num_turns), (u64::MAX, 3));
        assert_eq!((summary.total_cost_usd, summary.session_id.as_deref()), (Some(0.3), Some("a")));
        assert_eq!(summary.usage.unwrap().input_tokens, 2);
        assert_eq!(summary.error, None);
    }

    #[test]
    fn last_result_decides_and_has_the_class_of_its_own_message() {
        let mut events = json!([
            {"type": "assistant", "is_api_error_message": true, "error": "rate_limit", "message": {}},
            {"type": "result", "is_error": true, "api_error_status": 429, "result": "first"},
            {"type": "result", "is_error": true, "subtype": "error_max_turns", "errors": ["second", "too"]},
        ]);
        let expected = ResultError {
            subtype: Some("error_max_turns".to_owned()),
            text: Some("second\ntoo".to_owned()),
            ..ResultError::default()
        };
        assert_eq!(summary(events.clone()).unwrap().error, Some(expected.clone()));
        // A limit is an error regardless of `is_error`.
        events[2]["is_error"] = json!(false);
        assert_eq!(summary(events.clone()).unwrap().error, Some(expected));
        let fine = json!({"type": "result", "is_error": false, "result": "fine"});
        events.as_array_mut().unwrap().push(fine);
        assert_eq!(summary(events).unwrap().error, None);
    }

    #[test]
    fn reply_that_mentions_an_error_is_not_one() {
        let summary = summary(json!([
            {"type": "assistant", "parent_tool_use_id": "t", "is_api_error_message": true, "error": "rate_limit"},
            {"type": "result", "is_error": true},
        ]))
        .unwrap();
        assert_eq!(summary.error, Some(ResultError::default()));
    }
}
