//! The content codings that an upstream may use.

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};

use super::messages;

/// Codings that the proxy can decode.
const KNOWN: [&str; 6] = ["gzip", "x-gzip", "deflate", "br", "zstd", "identity"];

/// Restricts `Accept-Encoding` to codings that the proxy can decode, keeping their weights and
/// their order. `*` becomes `identity`, and so does a list of which nothing is left. gRPC and
/// Connect messages are requested uncompressed. A request without these headers, or with nothing to
/// remove from them, is not changed, so that a signature over them stays valid.
pub(crate) fn limit_encodings(headers: &mut HeaderMap) {
    messages::ask_for_plain(headers);
    let lines: Vec<&[u8]> = headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
    let lines = lines.join(&b","[..]);
    let asked: Vec<&str> = lines
        .split(|byte| *byte == b',')
        .map(|member| std::str::from_utf8(member).map_or("unreadable", str::trim))
        .filter(|member| !member.is_empty())
        .collect();
    if asked.iter().all(|member| is_known(coding(member))) {
        return;
    }
    let identity = asked.iter().any(|member| coding(member).eq_ignore_ascii_case("identity"));
    let kept = asked.iter().filter_map(|member| match coding(member) {
        "*" if !identity => Some(member.replacen('*', "identity", 1)),
        coding if is_known(coding) => Some((*member).to_owned()),
        _ => None,
    });
    let kept = kept.collect::<Vec<_>>().join(", ");
    let value = match HeaderValue::try_from(kept) {
        Ok(value) if !value.is_empty() => value,
        _ => HeaderValue::from_static("identity"),
    };
    headers.insert(ACCEPT_ENCODING, value);
}

fn coding(member: &str) -> &str {
    member.split(';').next().unwrap_or_default().trim()
}

fn is_known(coding: &str) -> bool {
    KNOWN.iter().any(|known| known.eq_ignore_ascii_case(coding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[&str], expected: &[&str]) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap());
        }
        limit_encodings(&mut headers);
        let limited: Vec<&[u8]> =
            headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
        let expected: Vec<&[u8]> = expected.iter().map(|line| line.as_bytes()).collect();
        assert_eq!(limited, expected, "{lines:?}");
    }

    #[test]
    fn stream_messages_are_requested_uncompressed() {
        for name in ["grpc-accept-encoding", "connect-accept-encoding"] {
            for (lines, expected) in [
                (&[][..], &[][..]),
                (&["identity"], &["identity"]),
                (&["Identity, ", "identity"], &["Identity, ", "identity"]),
                (&["gzip"], &["identity"]),
                (&["identity,deflate,gzip"], &["identity"]),
                (&["identity", "br"], &["identity"]),
                (&["*"], &["identity"]),
                (&["\u{e9}"], &["identity"]),
            ] {
                let mut headers = HeaderMap::new();
                for line in lines {
                    headers.append(name, HeaderValue::from_str(line).unwrap());
                }
                limit_encodings(&mut headers);
                let limited: Vec<&[u8]> = headers.values().map(HeaderValue::as_bytes).collect();
                let expected: Vec<&[u8]> = expected.iter().map(|line| line.as_bytes()).collect();
                assert_eq!(limited, expected, "{name}: {lines:?}");
            }
        }
    }

    #[test]
    fn only_decodable_codings_are_accepted() {
        check(&[], &[]);
        check(&[""], &[""]);
        check(&["identity"], &["identity"]);
        check(&["gzip, deflate,br ,zstd"], &["gzip, deflate,br ,zstd"]);
        check(&["GZIP;q=0.5", "br"], &["GZIP;q=0.5", "br"]);
        check(&["gzip, compress;q=0.9, br;q=0.8"], &["gzip, br;q=0.8"]);
        check(&["gzip", "dcb, dcz", "zstd"], &["gzip, zstd"]);
        check(&["compress"], &["identity"]);
        check(&["*"], &["identity"]);
        check(&["gzip;q=1, * ; q=0"], &["gzip;q=1, identity ; q=0"]);
        check(&["gzip, identity;q=0, *;q=0.1"], &["gzip, identity;q=0"]);
        check(&["gzipped"], &["identity"]);
        check(&["gzip, \u{e9}"], &["gzip"]);
    }
}
