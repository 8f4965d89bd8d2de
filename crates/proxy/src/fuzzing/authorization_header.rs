//! Any `Authorization` header.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

use super::head::{add_headers, first_line};
use super::signed_request::check;

/// `data` is the value of the header; each further line is another header.
///
/// # Panics
///
/// When a real value goes where it does not belong, or a signature is replaced only in part.
pub fn authorization_header(data: &[u8]) {
    let (value, lines) = first_line(data);
    let Ok(value) = HeaderValue::from_bytes(value.trim_ascii()) else {
        return;
    };
    let mut headers = HeaderMap::new();
    headers.append(AUTHORIZATION, value);
    add_headers(&mut headers, lines);
    check(&headers, "/bucket/key?list-type=2");
}
