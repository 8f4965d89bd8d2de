//! The canonical request: the text whose hash is signed. It is built from the request as it will be
//! sent.

use http::{HeaderMap, HeaderName};

use super::encoding::{decoded, encoded_path};
use super::error::SignError;
use super::rules::PathRule;

/// The path as it is signed.
pub(super) fn canonical_path(rule: PathRule, path: &str) -> String {
    match rule {
        PathRule::EncodedOnce => encoded_path(&decoded(path)),
        PathRule::EncodedTwice => encoded_path(path.as_bytes()),
        PathRule::NormalizedAndEncodedTwice => encoded_path(normalized(path).as_bytes()),
    }
}

/// The headers as they are signed, one line for each of `names`, in this order; `host` is the value
/// of that header.
///
/// # Errors
///
/// [`SignError::MissingHeader`] for a name that the request does not have.
pub(super) fn canonical_headers(
    names: &[HeaderName],
    headers: &HeaderMap,
    host: &str,
) -> Result<Vec<u8>, SignError> {
    let mut text = Vec::new();
    for name in names {
        text.extend_from_slice(name.as_str().as_bytes());
        text.push(b':');
        if *name == http::header::HOST {
            text.extend_from_slice(&canonical_value(host.as_bytes()));
        } else {
            text.extend_from_slice(&joined(name, headers)?);
        }
        text.push(b'\n');
    }
    Ok(text)
}

/// A header value as it is signed: trimmed, and with runs of spaces collapsed into one.
pub(super) fn canonical_value(value: &[u8]) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::with_capacity(value.len());
    for &byte in value.trim_ascii() {
        if byte != b' ' || text.last() != Some(&b' ') {
            text.push(byte);
        }
    }
    text
}

/// All values of a header, in their order on the wire.
fn joined(name: &HeaderName, headers: &HeaderMap) -> Result<Vec<u8>, SignError> {
    let values: Vec<Vec<u8>> =
        headers.get_all(name).iter().map(|value| canonical_value(value.as_bytes())).collect();
    if values.is_empty() {
        return Err(SignError::MissingHeader(name.clone()));
    }
    Ok(values.join(b",".as_slice()))
}

/// The path without dot segments and empty segments. A slash at the end stays, and so does one
/// before a dot segment at the end.
fn normalized(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let ends_open = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    let close = if ends_open && !segments.is_empty() { "/" } else { "" };
    format!("/{}{close}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn canonical_path_follows_its_rule() {
        use PathRule::{EncodedOnce, EncodedTwice, NormalizedAndEncodedTwice};
        let table = [
            (NormalizedAndEncodedTwice, "", "/"),
            (NormalizedAndEncodedTwice, "/", "/"),
            (NormalizedAndEncodedTwice, "/a/", "/a/"),
            (NormalizedAndEncodedTwice, "//a//b//", "/a/b/"),
            (NormalizedAndEncodedTwice, "/a/./b/../c", "/a/c"),
            (NormalizedAndEncodedTwice, "/a/b/..", "/a/"),
            (NormalizedAndEncodedTwice, "/../..", "/"),
            (NormalizedAndEncodedTwice, "/a%2Fb%20c", "/a%252Fb%2520c"),
            (NormalizedAndEncodedTwice, "/@x:y", "/%40x%3Ay"),
            (EncodedTwice, "//a/../%20", "//a/../%2520"),
            (EncodedOnce, "//a/../b//", "//a/../b//"),
            (EncodedOnce, "/a%20b", "/a%20b"),
            (EncodedOnce, "/a+b", "/a%2Bb"),
            (EncodedOnce, "/a%2bb", "/a%2Bb"),
            (EncodedOnce, "/a:b@c", "/a%3Ab%40c"),
            (EncodedOnce, "/%7Euser%e1%88%b4", "/~user%E1%88%B4"),
            (EncodedOnce, "/100%", "/100%25"),
        ];
        for (rule, path, canonical) in table {
            assert_eq!(canonical_path(rule, path), canonical, "{rule:?} {path}");
        }
    }

    #[test]
    fn canonical_value_collapses_spaces() {
        for (value, canonical) in [
            ("a", "a"),
            ("  a   b  ", "a b"),
            ("\"a   b\"", "\"a b\""),
            ("a\t b", "a\t b"),
            ("", ""),
            ("   ", ""),
        ] {
            assert_eq!(canonical_value(value.as_bytes()), canonical.as_bytes(), "{value:?}");
        }
    }

    #[test]
    fn missing_header_is_named_in_the_error() {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("wrong.test"));
        let names = [http::header::HOST, http::header::RANGE];
        assert_eq!(canonical_headers(&names[..1], &headers, "right.test"), Ok(b"host:right.test\n".to_vec()));
        assert_eq!(
            canonical_headers(&names, &headers, "right.test"),
            Err(SignError::MissingHeader(http::header::RANGE))
        );
    }
}
