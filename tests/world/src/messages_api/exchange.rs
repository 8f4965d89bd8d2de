//! What goes into the stand-in and what comes out of it, without any HTTP library.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

/// One request to the API, its body already read.
#[derive(Debug, Clone, Default)]
pub struct ApiRequest {
    /// The method in upper case, such as `POST`.
    pub method: String,
    /// The path with its query, such as `/v1/messages?beta=true`.
    pub path: String,
    /// Names and values in the order they came.
    pub headers: Vec<(String, String)>,
    /// The body; `null` where there was none or it was no JSON.
    pub body: Value,
}

impl ApiRequest {
    /// The first header of this name, whatever its case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The path without its query.
    #[must_use]
    pub fn route(&self) -> &str {
        self.path.split_once('?').map_or(self.path.as_str(), |(route, _)| route)
    }
}

/// One response of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResponse {
    /// The HTTP status.
    pub status: u16,
    /// Names and values; neither `content-length` nor `transfer-encoding` is among them.
    pub headers: Vec<(String, String)>,
    /// What to do, in order, to send the body.
    pub body: Vec<Step>,
}

/// One step in sending a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send these bytes and flush them.
    Bytes(Bytes),
    /// Send nothing for this long.
    Pause(Duration),
    /// Drop the connection without ending the body. What was sent before must have left by then.
    Abort,
}

impl ApiResponse {
    /// A response whose whole body is one JSON document.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![
                ("content-type".to_owned(), "application/json".to_owned()),
                ("request-id".to_owned(), REQUEST_ID.to_owned()),
            ],
            body: vec![Step::Bytes(Bytes::from(body.to_string()))],
        }
    }

    /// A stream of server-sent events.
    #[must_use]
    pub fn event_stream(body: Vec<Step>) -> Self {
        Self {
            status: 200,
            headers: vec![
                ("content-type".to_owned(), "text/event-stream; charset=utf-8".to_owned()),
                ("cache-control".to_owned(), "no-cache".to_owned()),
                ("request-id".to_owned(), REQUEST_ID.to_owned()),
            ],
            body,
        }
    }

    /// A response without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }
}

/// The request id of every answer; the real API's differ, and nothing here depends on that.
pub(super) const REQUEST_ID: &str = "req_011CStandInForTheMessagesApi";
