//! Responses in place of the upstream's, in words that an agent can act on.
//!
//! They contain nothing about the host machine, other tasks or rules that did not match: a denial's
//! message is written for the client.

use allowlist::Reason;
use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use sandbox_proxy_protocol::{BlockReason, REFUSAL_ID};
use serde_json::json;

use crate::policy::Blocked;
use crate::upstream::UpstreamError;

const BLOCKED: HeaderName = HeaderName::from_static("x-sandbox-blocked");
const FAILED: HeaderName = HeaderName::from_static("x-sandbox-error");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// The type of the response to a push. Git's client reads a response of this type, regardless of
/// its content.
const PUSH_RESULT: &str = "application/x-git-receive-pack-result";
/// Opens the message of a refusal that only the operator can change: an agent that takes it for a
/// network error tries again.
const POLICY_NOTICE: &str = "blocked by sandbox policy; do not retry, ask the operator to allow it: ";

/// The recipient of a response: all of it comes from the client itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Audience<'a> {
    /// The method of the request.
    pub(super) method: &'a str,
    /// The host as received.
    pub(super) host: &'a str,
    /// The path as received, without the query.
    pub(super) path: &'a str,
    /// Whether the client prefers HTML to JSON.
    pub(super) html: bool,
}

/// The response to a refused request.
pub(super) fn blocked(audience: Audience<'_>, denial: &Blocked) -> Response<Bytes> {
    let opening = if is_the_operators(denial.reason()) { POLICY_NOTICE } else { "" };
    let body = Body {
        error: "blocked_by_network_allowlist",
        reason: denial.reason().as_str(),
        message: &format!("{opening}{}", denial.message()),
        header: BLOCKED,
    };
    let push = denial.push_report().and_then(|report| report.answer(body.message));
    let mut response = match push {
        Some(report) => page(StatusCode::OK, PUSH_RESULT, report.into(), &body),
        None => answer(audience, status(denial.reason()), &body),
    };
    if let Ok(id) = HeaderValue::try_from(format!("{REFUSAL_ID}{}", body.reason)) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if closes(denial.reason()) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if denial.reason() == Reason::MethodForbidden.into() {
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    }
    response
}

/// The response if the upstream failed.
pub(super) fn failed(audience: Audience<'_>, error: &UpstreamError) -> Response<Bytes> {
    let message = format!("{} could not be reached: {}", audience.host, error.kind().sentence());
    let body =
        Body { error: "upstream_failed", reason: error.kind().as_str(), message: &message, header: FAILED };
    answer(audience, StatusCode::BAD_GATEWAY, &body)
}

/// Why a permitted request is not sent, or the upstream's response is not forwarded, in words for
/// the client and for the log.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) status: StatusCode,
    /// As it appears in headers and pages.
    pub(super) reason: &'static str,
    /// One sentence that includes the fix.
    pub(super) message: String,
    /// For the record.
    pub(super) record: String,
}

/// The response if the request is not sent, or the upstream's response cannot be forwarded.
pub(super) fn unsent(audience: Audience<'_>, unsent: &Unsent) -> Response<Bytes> {
    let body =
        Body { error: "credentials_failed", reason: unsent.reason, message: &unsent.message, header: FAILED };
    answer(audience, unsent.status, &body)
}

/// The status of a refusal.
fn status(reason: BlockReason) -> StatusCode {
    match reason {
        BlockReason::Framing | BlockReason::Policy(Reason::Unreadable | Reason::Identity) => {
            StatusCode::BAD_REQUEST
        }
        BlockReason::Timeout => StatusCode::REQUEST_TIMEOUT,
        BlockReason::IdentityMismatch => StatusCode::MISDIRECTED_REQUEST,
        BlockReason::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        BlockReason::Limit => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::FORBIDDEN,
    }
}

/// Whether only the operator can change the refusal, not the client.
fn is_the_operators(reason: BlockReason) -> bool {
    match reason {
        BlockReason::Quarantine | BlockReason::Budget => true,
        BlockReason::Policy(reason) => reason.is_the_operators(),
        _ => false,
    }
}

/// Whether nothing more can be read from a connection after a refusal for this reason.
fn closes(reason: BlockReason) -> bool {
    matches!(
        reason,
        BlockReason::Framing | BlockReason::HeadTooLarge | BlockReason::Timeout | BlockReason::Limit
    )
}

/// Whether `Accept` ranks HTML above JSON.
pub(super) fn prefers_html(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<&str> = lines.flat_map(|line| line.split(',')).collect();
    let html = quality(&ranges, &["text/html", "application/xhtml+xml"]);
    html.is_some_and(|html| {
        html > quality(&ranges, &["application/json", "application/*", "*/*"]).unwrap_or(0)
    })
}

/// The highest quality of any of `types`, in thousandths.
fn quality(ranges: &[&str], types: &[&str]) -> Option<u32> {
    let qualities = ranges.iter().filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default();
        if !types.iter().any(|kind| kind.eq_ignore_ascii_case(range)) {
            return None;
        }
        let weight = parts
            .find_map(|part| part.strip_prefix("q="))
            .map_or(Some(1.0), |weight| weight.parse::<f32>().ok())?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number is between 0 and 1000"
        )]
        let thousandths = (weight.clamp(0.0, 1.0) * 1000.0) as u32;
        Some(thousandths)
    });
    qualities.max()
}

struct Body<'a> {
    error: &'static str,
    reason: &'static str,
    message: &'a str,
    header: HeaderName,
}

fn answer(audience: Audience<'_>, status: StatusCode, body: &Body<'_>) -> Response<Bytes> {
    let (kind, text) = if audience.html {
        ("text/html; charset=utf-8", html(audience, status, body))
    } else {
        ("application/json", json(audience, body))
    };
    let length = text.len();
    // A body in the response to HEAD would break an HTTP/2 stream.
    let content = if audience.method == Method::HEAD.as_str() { Bytes::new() } else { Bytes::from(text) };
    let mut response = page(status, kind, content, body);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

fn page(status: StatusCode, kind: &'static str, content: Bytes, body: &Body<'_>) -> Response<Bytes> {
    let length = content.len();
    let mut response = Response::new(content);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(body.header.clone(), HeaderValue::from_static(body.reason));
    response
}

fn json(audience: Audience<'_>, body: &Body<'_>) -> String {
    let mut text = json!({
        "error": body.error,
        "reason": body.reason,
        "host": audience.host,
        "path": audience.path,
        "method": audience.method,
        "message": body.message,
    })
    .to_string();
    text.push('\n');
    text
}

fn html(audience: Audience<'_>, status: StatusCode, body: &Body<'_>) -> String {
    format!(
        "<!doctype html>\n<title>{status}</title>\n<h1>{error}</h1>\n<p>{message}</p>\n<p><code>{method} {host}{path}</code> ({reason})</p>\n",
        status = status.as_u16(),
        error = body.error,
        message = escape(body.message),
        method = escape(audience.method),
        host = escape(audience.host),
        path = escape(audience.path),
        reason = body.reason,
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audience(method: &str, html: bool) -> Audience<'_> {
        Audience { method, host: "evil.example", path: "/<script>", html }
    }

    fn text(response: Response<Bytes>) -> String {
        String::from_utf8(response.into_body().to_vec()).unwrap()
    }

    #[test]
    fn refusal_names_the_request_and_the_reason() {
        let denial = Blocked::new(Reason::Host, "add it");
        let response = blocked(audience("GET", false), &denial);
        assert_eq!(response.status(), 403);
        assert_eq!(response.headers()[BLOCKED], "host");
        assert_eq!(response.headers()[REQUEST_ID], "sandbox-blocked-host");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        let json: serde_json::Value = serde_json::from_str(&text(response)).unwrap();
        let expected = json!({
            "error": "blocked_by_network_allowlist", "reason": "host", "host": "evil.example", "path": "/<script>",
            "method": "GET",
            "message": "blocked by sandbox policy; do not retry, ask the operator to allow it: add it",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn each_reason_has_its_status() {
        for (reason, expected) in [
            (BlockReason::IdentityMismatch, 421),
            (BlockReason::Framing, 400),
            (BlockReason::HeadTooLarge, 431),
            (BlockReason::Timeout, 408),
            (BlockReason::Limit, 503),
            (BlockReason::Quarantine, 403),
            (BlockReason::Budget, 403),
            (Reason::Unreadable.into(), 400),
            (Reason::Identity.into(), 400),
            (Reason::NoSni.into(), 403),
            (Reason::Port.into(), 403),
            (Reason::MethodForbidden.into(), 403),
            (Reason::Path.into(), 403),
            (Reason::Method.into(), 403),
            (Reason::Query.into(), 403),
            (Reason::PathNotAllowed.into(), 403),
            (Reason::Host.into(), 403),
            (Reason::Address.into(), 403),
        ] {
            assert_eq!(status(reason).as_u16(), expected, "{reason}");
        }
    }

    #[test]
    fn html_is_escaped_and_head_is_empty() {
        let denial = Blocked::new(BlockReason::Framing, "a & b");
        let response = blocked(audience("GET", true), &denial);
        assert_eq!(
            (response.status().as_u16(), &response.headers()[CONNECTION]),
            (400, &HeaderValue::from_static("close"))
        );
        let page = text(response);
        assert!(
            page.contains("/&lt;script&gt;") && page.contains("a &amp; b") && !page.contains("<script>"),
            "{page}"
        );
        assert_eq!(text(blocked(audience("HEAD", false), &denial)), "");
    }

    #[test]
    fn html_is_preferred_where_it_ranks_above_json() {
        let cases = [
            (None, false),
            (Some("*/*"), false),
            (Some("text/html"), true),
            (Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), true),
            (Some("text/html, application/json"), false),
            (Some("application/json, text/html;q=0.9"), false),
            (Some("text/html;q=x"), false),
            (Some("text/html;q=0"), false),
        ];
        for (accept, expected) in cases {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, HeaderValue::from_static(accept));
            }
            assert_eq!(prefers_html(&headers), expected, "{accept:?}");
        }
    }
}
