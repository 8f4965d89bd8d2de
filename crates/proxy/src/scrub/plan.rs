//! Deciding from the head of an answer how its body is read.

use std::sync::Arc;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName};
use http::{HeaderMap, Method, StatusCode};

use super::decode::{Coding, MOST_CODINGS};
use super::messages;
use super::needles::{Length, Needles};
use crate::fields::only;

/// Digests of the compressed bytes, which do not match the decoded ones. (An `ETag` stays: the
/// client sends it back to the upstream.)
const DIGESTS: [&str; 5] = ["content-md5", "content-digest", "digest", "repr-digest", "x-goog-hash"];
const DIGEST_PREFIX: &str = "x-amz-checksum-";

/// An answer whose body cannot be searched. It must not be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnknownEncoding {
    /// Only gzip, deflate, br and zstd can be decoded.
    #[error("failed to decode the answer: its content coding is unknown")]
    Unknown,
    /// Too many codings on top of each other.
    #[error("failed to decode the answer: it has more than {MOST_CODINGS} content codings")]
    TooMany,
    /// A stream of gRPC or Connect.
    #[error("failed to decode the answer: its messages are compressed individually")]
    Messages,
    /// A transfer coding other than `chunked`, which is not part of HTTP/2 and which no client
    /// requests through this proxy.
    #[error("failed to decode the answer: it has a transfer coding other than chunked")]
    Transfer,
    /// A range of compressed data.
    #[error("failed to decode the answer: it is a part of encoded data")]
    Partial,
}

/// How a body is handled.
#[derive(Debug)]
pub(crate) enum BodyScrub {
    /// There is no body, or nothing to search for.
    Pass,
    /// It is searched.
    Search(Search),
}

/// How a body is searched.
#[derive(Debug)]
pub(crate) struct Search {
    pub(super) needles: Arc<Needles>,
    /// In the order of decoding.
    pub(super) codings: Vec<Coding>,
    pub(super) length: Length,
}

/// Decides how to read the body of the answer with this head to a request by `method`, and corrects
/// the head: a body to be decoded loses `Content-Encoding`, `Content-Length` and digests. Any other
/// keeps an announced length, even if a surrogate differs in length. `recoded` means that a
/// transfer coding is still applied to the body.
///
/// # Errors
///
/// When the body is encoded in a way that cannot be decoded: the answer must be refused.
pub(crate) fn plan_body(
    needles: &Arc<Needles>,
    method: &Method,
    status: StatusCode,
    recoded: bool,
    headers: &mut HeaderMap,
) -> Result<BodyScrub, UnknownEncoding> {
    if needles.is_empty() || has_no_body(method, status, headers) {
        return Ok(BodyScrub::Pass);
    }
    if recoded {
        return Err(UnknownEncoding::Transfer);
    }
    if messages::are_encoded(headers) {
        return Err(UnknownEncoding::Messages);
    }
    let codings = codings(headers)?;
    let announced = headers.contains_key(CONTENT_LENGTH);
    let length = if announced && codings.is_empty() { Length::Fixed } else { Length::Free };
    if !codings.is_empty() {
        if status == StatusCode::PARTIAL_CONTENT {
            return Err(UnknownEncoding::Partial);
        }
        let of_the_encoded = [CONTENT_ENCODING, CONTENT_LENGTH];
        *headers = only(headers, |name| !of_the_encoded.contains(name) && !is_digest(name));
    }
    Ok(BodyScrub::Search(Search { needles: Arc::clone(needles), codings, length }))
}

/// Whether a field is known not to match a decoded body.
pub(super) fn is_digest(name: &HeaderName) -> bool {
    DIGESTS.contains(&name.as_str()) || name.as_str().starts_with(DIGEST_PREFIX)
}

fn has_no_body(method: &Method, status: StatusCode, headers: &HeaderMap) -> bool {
    *method == Method::HEAD
        || status.is_informational()
        || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| length == "0")
}

fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, UnknownEncoding> {
    let mut codings = Vec::new();
    for line in headers.get_all(CONTENT_ENCODING) {
        let line = line.to_str().map_err(|_| UnknownEncoding::Unknown)?;
        for name in line.split(',').map(str::trim) {
            if !is_ignored(name) {
                codings.push(Coding::named(name).ok_or(UnknownEncoding::Unknown)?);
            }
        }
    }
    if codings.len() > MOST_CODINGS {
        return Err(UnknownEncoding::TooMany);
    }
    codings.reverse();
    Ok(codings)
}

/// `aws-chunked` describes how an object was uploaded to S3: a server that keeps the name sends the
/// object as it is.
fn is_ignored(name: &str) -> bool {
    ["", "identity", "aws-chunked"].iter().any(|none| name.eq_ignore_ascii_case(none))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use sandbox_credentials::SecretValue;

    use super::*;

    /// `head` is `GET 200` and a line for each header; `expected` is the plan, then the headers
    /// that are left.
    #[track_caller]
    fn check(head: &str, expected: &str) {
        let needles = Needles::new([(SecretValue::new("real-value"), "fake-value".to_owned())]);
        let mut lines = head.split(" | ");
        let (method, status) = lines.next().unwrap().split_once(' ').unwrap();
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let recoded = headers.contains_key("transfer-encoding");
        headers = only(&headers, |name| name.as_str() != "transfer-encoding");
        let plan = plan_body(&Arc::new(needles), &method, status.parse().unwrap(), recoded, &mut headers);
        let mut shown = match plan {
            Ok(BodyScrub::Pass) => "pass".to_owned(),
            Ok(BodyScrub::Search(search)) => format!("{:?} {:?}", search.codings, search.length),
            Err(error) => format!("{error:?}"),
        };
        for (name, value) in &headers {
            shown.extend([" | ", name.as_str(), ": ", &String::from_utf8_lossy(value.as_bytes())]);
        }
        assert_eq!(shown, expected, "{head}");
    }

    #[test]
    fn body_is_read_as_its_head_describes() {
        check("GET 200", "[] Free");
        check("GET 200 | content-length: 5", "[] Fixed | content-length: 5");
        check("GET 200 | content-encoding: identity", "[] Free | content-encoding: identity");
        check(
            "GET 206 | content-encoding: aws-chunked | content-length: 5",
            "[] Fixed | content-encoding: aws-chunked | content-length: 5",
        );
        check(
            "GET 200 | content-encoding: gzip | content-length: 5 | etag: \"x\"",
            "[Gzip] Free | etag: \"x\"",
        );
        check("GET 200 | content-encoding: X-GZip", "[Gzip] Free");
        check(
            "GET 404 | content-encoding: deflate, br | content-encoding: zstd",
            "[Zstd, Brotli, Deflate] Free",
        );
        check("POST 200 | content-encoding: ,gzip, identity,", "[Gzip] Free");
        check(
            "GET 200 | a: 1 | content-encoding: br | b: 2 | content-md5: a | x-amz-checksum-crc32: b | c: 3 | repr-digest: c | x-amz-id: d",
            "[Brotli] Free | a: 1 | b: 2 | c: 3 | x-amz-id: d",
        );
        check("GET 200 | content-md5: a", "[] Free | content-md5: a");
        check("GET 206 | content-length: 5", "[] Fixed | content-length: 5");
    }

    #[test]
    fn answer_without_a_body_is_left_alone() {
        for head in ["HEAD 200", "GET 304", "GET 204"] {
            check(
                &format!("{head} | content-encoding: compress | content-length: 5"),
                "pass | content-encoding: compress | content-length: 5",
            );
        }
        check("GET 200 | content-length: 0", "pass | content-length: 0");
        let nothing = Arc::new(Needles::new([]));
        let plan = plan_body(&nothing, &Method::GET, StatusCode::OK, true, &mut HeaderMap::new());
        assert!(matches!(plan, Ok(BodyScrub::Pass)));
    }

    #[test]
    fn unknown_coding_is_refused() {
        check("GET 200 | transfer-encoding: gzip", "Transfer");
        check("HEAD 200 | transfer-encoding: gzip", "pass");
        check("GET 200 | content-encoding: compress", "Unknown | content-encoding: compress");
        check("GET 200 | content-encoding: gzip, dcb", "Unknown | content-encoding: gzip, dcb");
        check("GET 206 | content-encoding: gzip", "Partial | content-encoding: gzip");
        for name in ["grpc-encoding", "connect-content-encoding"] {
            for value in ["gzip", "identity, gzip", "deflate", "br", "\u{e9}"] {
                let head = format!("POST 200 | {name}: {value}");
                check(&head, &format!("Messages | {name}: {value}"));
            }
            for value in ["identity", "Identity", ""] {
                let head = format!("POST 200 | {name}: {value}");
                check(&head, &format!("[] Free | {name}: {value}"));
            }
        }
        let four = "content-encoding: gzip, gzip, gzip, gzip";
        check(&format!("GET 200 | {four}"), &format!("TooMany | {four}"));
    }
}
