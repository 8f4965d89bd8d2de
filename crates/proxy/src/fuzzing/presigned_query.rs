//! Any path and query.

use http::HeaderMap;

use super::head::{add_headers, first_line};
use super::signed_request::check;

/// `data` is path and query; each further line is a header.
///
/// # Panics
///
/// When a real value goes where it does not belong, or a signature is replaced only in part.
pub fn presigned_query(data: &[u8]) {
    let (target, lines) = first_line(data);
    let Ok(target) = str::from_utf8(target) else {
        return;
    };
    let mut headers = HeaderMap::new();
    add_headers(&mut headers, lines);
    check(&headers, target);
}
