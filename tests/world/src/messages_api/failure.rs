//! The errors the real API answers with, each under the name of the scenario that provokes it.

use serde_json::json;

use super::exchange::ApiResponse;
use super::exchange::REQUEST_ID;

/// An error answer: an HTTP status and the body that goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The scenario's name.
    pub name: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// `error.type` of the body.
    pub kind: &'static str,
    /// `error.message` of the body.
    pub message: &'static str,
}

impl Failure {
    /// The response that carries this error.
    #[must_use]
    pub fn response(&self) -> ApiResponse {
        error(self.status, self.kind, self.message)
    }
}

/// An error answer in the shape of the real API.
pub(super) fn error(status: u16, kind: &str, message: &str) -> ApiResponse {
    let body = json!({
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": REQUEST_ID,
    });
    ApiResponse::json(status, &body)
}

const fn failure(name: &'static str, status: u16, kind: &'static str, message: &'static str) -> Failure {
    Failure { name, status, kind, message }
}

/// Every error scenario.
pub const FAILURES: &[Failure] = &[
    failure(
        "prompt-too-long",
        400,
        "invalid_request_error",
        "prompt is too long: 204712 tokens > 200000 maximum",
    ),
    failure(
        "session-corrupted",
        400,
        "invalid_request_error",
        "messages.1.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_01StandIn. Each \
         `tool_result` block must have a corresponding `tool_use` block in the previous message.",
    ),
    failure(
        "image-error",
        400,
        "invalid_request_error",
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 7340032 bytes > 5242880 bytes",
    ),
    failure(
        "no-credit",
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or \
         purchase credits.",
    ),
    failure("unauthorized", 401, "authentication_error", "invalid x-api-key"),
    failure(
        "payment-required",
        402,
        "billing_error",
        "There is an issue with your billing or payment information.",
    ),
    failure(
        "forbidden",
        403,
        "permission_error",
        "Your API key does not have permission to use the specified resource.",
    ),
    failure("not-found", 404, "not_found_error", "model: claude-stand-in"),
    failure("request-timeout", 408, "timeout_error", "Request timed out"),
    failure("conflict", 409, "invalid_request_error", "The request conflicts with another request."),
    failure("request-too-large", 413, "request_too_large", "Request exceeds the maximum size"),
    failure("unprocessable", 422, "invalid_request_error", "The request could not be processed."),
    failure(
        "rate-limit",
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 50 requests per minute.",
    ),
    failure("server-error", 500, "api_error", "Internal server error"),
    failure("bad-gateway", 502, "api_error", "Bad gateway"),
    failure("unavailable", 503, "api_error", "Service unavailable"),
    failure("gateway-timeout", 504, "timeout_error", "Request timed out"),
    failure("overloaded", 529, "overloaded_error", "Overloaded"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::messages_api::Step;

    #[test]
    fn every_failure_has_a_name_of_its_own() {
        let names: BTreeSet<_> = FAILURES.iter().map(|failure| failure.name).collect();
        assert_eq!(names.len(), FAILURES.len());
    }

    #[test]
    fn the_body_is_in_the_shape_of_the_real_api() {
        let rate_limit = FAILURES.iter().find(|failure| failure.name == "rate-limit").unwrap();
        let response = rate_limit.response();
        assert_eq!(response.status, 429);
        let [Step::Bytes(body)] = response.body.as_slice() else { panic!("one step") };
        let body: serde_json::Value = serde_json::from_slice(body).unwrap();
        assert_eq!(body["type"], "error");
        assert_eq!(body["error"]["type"], "rate_limit_error");
    }
}
