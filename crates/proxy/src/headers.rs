//! Selects the headers that are forwarded. Order and duplicates are kept, and a header that is
//! written again stays where the client had it.

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use sandbox_proxy_protocol::REFUSAL_ID;

use crate::fields::only;

/// Headers that concern one connection only.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// Headers that override the method of the request line on some servers.
const METHOD_OVERRIDE: [&str; 4] =
    ["x-http-method-override", "x-http-method", "x-method-override", "x-method"];

/// Headers that override the path of the request line on some servers, or on frameworks behind
/// them: IIS and its rewrite modules, Symfony, Zend, the authorization requests of nginx and
/// Traefik, Envoy.
const PATH_OVERRIDE: [&str; 12] = [
    "x-original-url",
    "x-original-uri",
    "x-original-path",
    "x-rewrite-url",
    "x-rewrite-uri",
    "x-rewrite-path",
    "x-override-url",
    "x-request-uri",
    "x-forwarded-uri",
    "x-forwarded-path",
    "x-http-destinationurl",
    "x-envoy-original-path",
];

/// Names that no trailer may have, in addition to those that concern one connection: a recipient
/// that merges trailers into the headers would see another request than the one that was judged, or
/// another message.
const NO_TRAILER: [&str; 30] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "content-range",
    "authorization",
    "cookie",
    "set-cookie",
    "www-authenticate",
    "expect",
    "max-forwards",
    "cache-control",
    "range",
    "if-match",
    "if-none-match",
    "location",
    "alt-svc",
    "trailer",
    "api-key",
    "apikey",
    "deploy-token",
    "job-token",
    "private-token",
    "x-access-token",
    "x-amz-s3session-token",
    "x-amz-security-token",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-goog-api-key",
];

/// The transfer coding of a body without a length.
const CHUNKED: HeaderValue = HeaderValue::from_static("chunked");

/// Would lead clients to another port and protocol, which the proxy does not serve.
const ALT_SVC: HeaderName = HeaderName::from_static("alt-svc");

/// Rules for the headers of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestRules {
    /// The host has rules with methods, so a method must not hide in a header.
    pub(crate) strip_method_override: bool,
    /// Only some paths of the host are allowed, so a path must not hide in a header.
    pub(crate) strip_path_override: bool,
    /// The request asks for a WebSocket, the only upgrade that is forwarded.
    pub(crate) websocket: bool,
}

/// The headers of a request that go to the upstream; `None` if `Connection` names an essential
/// header, without which the request would mean something else.
pub(crate) fn request_headers(headers: &HeaderMap, rules: RequestRules) -> Option<HeaderMap> {
    let named = connection_options(headers);
    if named.iter().any(is_essential) {
        return None;
    }
    let trailers = wants_trailers(headers);
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let replacement = match *name {
            TE if trailers => Some("trailers"),
            CONNECTION if rules.websocket => Some("Upgrade"),
            UPGRADE if rules.websocket => Some("websocket"),
            _ => None,
        };
        let dropped = concerns_one_connection(name)
            || named.contains(name)
            || (rules.strip_method_override && is_method_override(name))
            || (rules.strip_path_override && is_path_override(name));
        match replacement {
            Some(replacement) => drop(kept.insert(name.clone(), HeaderValue::from_static(replacement))),
            None if dropped => {}
            None => drop(kept.append(name.clone(), value.clone())),
        }
    }
    Some(kept)
}

/// The headers of a response that go to the client.
pub(crate) fn response_headers(headers: &HeaderMap) -> HeaderMap {
    let named = connection_options(headers);
    let reframed = headers.contains_key(TRANSFER_ENCODING);
    // Only this proxy may report that it refused a request.
    let poses =
        headers.get_all("request-id").iter().any(|id| id.as_bytes().starts_with(REFUSAL_ID.as_bytes()));
    only(headers, |name| {
        // A length next to a transfer-encoding is not the length of the body.
        let dropped = HOP_BY_HOP.contains(name)
            || *name == ALT_SVC
            || (poses && name.as_str() == "request-id")
            || name.as_str().starts_with("x-sandbox-")
            || (named.contains(name) && !is_essential(name))
            || (reframed && *name == CONTENT_LENGTH);
        !dropped
    })
}

/// The trailers that are forwarded in either direction, except those in `unwanted`.
pub(crate) fn trailers(received: &HeaderMap, unwanted: &[HeaderName]) -> HeaderMap {
    only(received, |name| {
        let dropped = HOP_BY_HOP.contains(name)
            || is_among(name, &NO_TRAILER)
            || is_method_override(name)
            || is_path_override(name)
            || unwanted.iter().any(|unwanted| is_same(name.as_str(), unwanted.as_str()));
        !dropped
    })
}

/// Whether a header is for the next hop only.
pub(crate) fn concerns_one_connection(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name) || *name == EXPECT
}

/// The headers of an HTTP/1 request: the host in a header, all cookies on one line.
pub(crate) fn for_http1(headers: &HeaderMap, host: &HeaderValue) -> HeaderMap {
    let mut shaped = HeaderMap::with_capacity(headers.len() + 1);
    if !headers.contains_key(HOST) {
        shaped.append(HOST, host.clone());
    }
    for (name, value) in headers {
        if *name != COOKIE {
            shaped.append(name.clone(), value.clone());
        } else if !shaped.contains_key(COOKIE) {
            shaped.append(COOKIE, joined_cookies(headers).unwrap_or_else(|| value.clone()));
        }
    }
    shaped
}

/// The headers of an HTTP/2 request: the host in `:authority` only.
pub(crate) fn for_http2(headers: &HeaderMap) -> HeaderMap {
    only(headers, |name| *name != HOST)
}

/// Adds the header for a chunked body before the header `next`, or after all others.
pub(crate) fn with_chunks(headers: &HeaderMap, next: Option<&HeaderName>) -> HeaderMap {
    let mut shaped = HeaderMap::with_capacity(headers.len() + 1);
    for (name, value) in headers {
        if next == Some(name) {
            shaped.insert(TRANSFER_ENCODING, CHUNKED);
        }
        shaped.append(name.clone(), value.clone());
    }
    shaped.insert(TRANSFER_ENCODING, CHUNKED);
    shaped
}

/// The first header after `transfer-encoding` in `received` that `kept` contains.
pub(crate) fn after_chunks(received: &HeaderMap, kept: &HeaderMap) -> Option<HeaderName> {
    let mut following = received.keys().skip_while(|name| **name != TRANSFER_ENCODING);
    following.find(|name| kept.contains_key(*name)).cloned()
}

/// Whether the request asks for an upgrade to WebSocket, and to nothing else.
pub(crate) fn asks_for_websocket(headers: &HeaderMap) -> bool {
    let mut upgrades = headers.get_all(UPGRADE).iter();
    let websocket = upgrades.next().is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    websocket && upgrades.next().is_none() && connection_options(headers).contains(&UPGRADE)
}

/// Whether a header may override the method of the request line.
pub(crate) fn overrides_method(headers: &HeaderMap) -> bool {
    headers.keys().any(is_method_override)
}

/// Whether a header may override the path of the request line.
pub(crate) fn overrides_path(headers: &HeaderMap) -> bool {
    headers.keys().any(is_path_override)
}

/// Whether the client waits for a go-ahead before it sends the body.
pub(crate) fn expects_continue(headers: &HeaderMap) -> bool {
    headers.contains_key(EXPECT)
}

/// Whether some server takes the method from this header.
fn is_method_override(name: &HeaderName) -> bool {
    is_among(name, &METHOD_OVERRIDE)
}

/// Whether some server takes the path from this header.
fn is_path_override(name: &HeaderName) -> bool {
    is_among(name, &PATH_OVERRIDE)
}

fn is_among(name: &HeaderName, names: &[&str]) -> bool {
    names.iter().any(|known| is_same(name.as_str(), known))
}

/// Whether some server treats two lower-case names as the same: gateways map hyphens and
/// underscores to one character.
pub(crate) fn is_same(name: &str, other: &str) -> bool {
    let hyphened = |byte| if byte == b'_' { b'-' } else { byte };
    name.len() == other.len() && name.bytes().map(hyphened).eq(other.bytes().map(hyphened))
}

/// Whether a response came in a transfer coding other than `chunked`. hyper decodes only that one,
/// and the header that names the others is not forwarded.
pub(crate) fn is_recoded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

fn joined_cookies(headers: &HeaderMap) -> Option<HeaderValue> {
    let crumbs = headers.get_all(COOKIE);
    let texts: Vec<&[u8]> = crumbs.iter().map(HeaderValue::as_bytes).collect();
    let mut joined = HeaderValue::from_bytes(&texts.join(b"; ".as_slice())).ok()?;
    joined.set_sensitive(crumbs.iter().any(HeaderValue::is_sensitive));
    Some(joined)
}

fn wants_trailers(headers: &HeaderMap) -> bool {
    let mut codings =
        headers.get_all(TE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    codings.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// The headers that `Connection` names.
fn connection_options(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(CONNECTION).iter();
    let options = lines.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    options.filter_map(|option| HeaderName::from_bytes(option.trim_ascii()).ok()).collect()
}

/// Whether a message would mean something else without this header.
fn is_essential(name: &HeaderName) -> bool {
    const ESSENTIAL: [&str; 6] =
        ["host", "content-length", "content-type", "content-encoding", "authorization", "cookie"];
    ESSENTIAL.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect::<Vec<_>>()
            .into_iter()
            .fold(HeaderMap::new(), |mut map, (name, value)| {
                map.append(name, value);
                map
            })
    }

    fn lines(map: &HeaderMap) -> Vec<String> {
        map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    const PLAIN: RequestRules =
        RequestRules { strip_method_override: false, strip_path_override: false, websocket: false };

    #[test]
    fn upstream_headers_that_pose_as_the_proxy_are_dropped() {
        let posing = map(&[
            ("request-id", "sandbox-blocked-host"),
            ("x-sandbox-blocked", "host"),
            ("x-sandbox-error", "dns"),
            ("x-request-id", "1"),
        ]);
        assert_eq!(lines(&response_headers(&posing)), ["x-request-id: 1"]);
        let other = map(&[("request-id", "req_1")]);
        assert_eq!(lines(&response_headers(&other)), ["request-id: req_1"]);
    }

    #[test]
    fn order_and_duplicates_are_kept() {
        let headers = map(&[
            ("host", "a"),
            ("connection", "keep-alive, X-Hop"),
            ("accept", "1"),
            ("x-hop", "gone"),
            ("accept", "2"),
            ("keep-alive", "5"),
            ("te", "gzip, trailers"),
            ("expect", "100-continue"),
            ("zeta", "z"),
            ("te", "deflate"),
            ("beta", "b"),
        ]);
        let kept = request_headers(&headers, PLAIN).unwrap();
        let expected = ["host: a", "accept: 1", "accept: 2", "te: trailers", "zeta: z", "beta: b"];
        assert_eq!(lines(&kept), expected);
        let websocket = RequestRules { websocket: true, ..PLAIN };
        let headers = map(&[
            ("a", "1"),
            ("connection", "keep-alive"),
            ("b", "2"),
            ("upgrade", "WebSocket"),
            ("connection", "Upgrade"),
            ("c", "3"),
        ]);
        let kept = request_headers(&headers, websocket).unwrap();
        let expected = ["a: 1", "connection: Upgrade", "b: 2", "upgrade: websocket", "c: 3"];
        assert_eq!(lines(&kept), expected);
    }

    #[test]
    fn transfer_encoding_stays_where_the_client_had_it() {
        let received = map(&[
            ("a", "1"),
            ("transfer-encoding", "chunked"),
            ("keep-alive", "5"),
            ("b", "2"),
            ("c", "3"),
            ("b", "4"),
        ]);
        let kept = map(&[("a", "1"), ("b", "2"), ("b", "4"), ("c", "3")]);
        let next = after_chunks(&received, &kept);
        let expected = ["a: 1", "transfer-encoding: chunked", "b: 2", "b: 4", "c: 3"];
        assert_eq!(lines(&with_chunks(&kept, next.as_ref())), expected);
        // It is the last header, or missing: an HTTP/2 client sends none.
        for received in [map(&[("b", "2"), ("a", "1"), ("transfer-encoding", "chunked")]), kept.clone()] {
            assert_eq!(after_chunks(&received, &kept), None);
        }
        assert_eq!(lines(&with_chunks(&map(&[("a", "1")]), None)), ["a: 1", "transfer-encoding: chunked"]);
    }

    #[test]
    fn connection_header_that_names_an_essential_one_is_refused() {
        for name in ["host", "Content-Length", "authorization", "cookie"] {
            let mut headers = map(&[("host", "a")]);
            headers.append(CONNECTION, HeaderValue::from_str(&format!("close, {name}")).unwrap());
            assert!(request_headers(&headers, PLAIN).is_none(), "{name}");
        }
    }

    #[test]
    fn method_overrides_are_dropped_if_methods_count() {
        let headers = map(&[
            ("x-http-method-override", "DELETE"),
            ("x-method-override", "PUT"),
            ("x-http-method", "PUT"),
            ("x_http_method-override", "PUT"),
            ("a", "b"),
        ]);
        assert_eq!(request_headers(&headers, PLAIN).unwrap().len(), 5);
        let strict = RequestRules { strip_method_override: true, ..PLAIN };
        assert_eq!(lines(&request_headers(&headers, strict).unwrap()), ["a: b"]);
    }

    #[test]
    fn path_overrides_are_dropped_if_paths_count() {
        let headers = map(&[
            ("x-original-url", "/admin"),
            ("x_rewrite_url", "/admin"),
            ("x-forwarded-uri", "/admin"),
            ("x-forwarded-for", "a"),
        ]);
        assert!(overrides_path(&headers));
        assert_eq!(request_headers(&headers, PLAIN).unwrap().len(), 4);
        let strict = RequestRules { strip_path_override: true, ..PLAIN };
        let kept = request_headers(&headers, strict).unwrap();
        assert_eq!(lines(&kept), ["x-forwarded-for: a"]);
        assert!(!overrides_path(&kept));
    }

    #[test]
    fn only_chunked_is_a_known_transfer_coding() {
        for (codings, expected) in [
            (&[][..], false),
            (&["chunked"], false),
            (&["Chunked"], false),
            (&["gzip, chunked"], true),
            (&["gzip", "chunked"], true),
            (&["gzip"], true),
            (&["identity"], true),
        ] {
            let headers = codings.iter().map(|coding| ("transfer-encoding", *coding)).collect::<Vec<_>>();
            assert_eq!(is_recoded(&map(&headers)), expected, "{codings:?}");
        }
    }

    #[test]
    fn trailers_that_would_change_the_message_are_dropped() {
        let received = map(&[
            ("grpc-status", "0"),
            ("content-length", "5"),
            ("transfer-encoding", "chunked"),
            ("host", "b"),
            ("authorization", "Bearer x"),
            ("x_http_method_override", "DELETE"),
            ("x-api-key", "x"),
            ("x_api_key", "x"),
            ("x-original-url", "/admin"),
            ("x-amz-security-token", "x"),
            ("x-sum", "1"),
            ("x-key", "1"),
        ]);
        assert_eq!(lines(&trailers(&received, &[])), ["grpc-status: 0", "x-sum: 1", "x-key: 1"]);
        let named = [HeaderName::from_static("x_key")];
        assert_eq!(lines(&trailers(&received, &named)), ["grpc-status: 0", "x-sum: 1"]);
    }

    #[test]
    fn response_headers_of_one_connection_are_dropped() {
        let headers = map(&[
            ("alt-svc", "h3=\":443\""),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("trailer", "grpc-status"),
            ("set-cookie", "a"),
            ("upgrade", "h2"),
            ("set-cookie", "b"),
        ]);
        assert_eq!(
            lines(&response_headers(&headers)),
            ["trailer: grpc-status", "set-cookie: a", "set-cookie: b"]
        );
        assert_eq!(lines(&response_headers(&map(&[("content-length", "3")]))), ["content-length: 3"]);
    }

    #[test]
    fn request_headers_follow_the_http_version() {
        let headers = map(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")]);
        let host = HeaderValue::from_static("h");
        assert_eq!(lines(&for_http1(&headers, &host)), ["host: h", "cookie: a=1; b=2", "x: y"]);
        let headers = map(&[("x", "y"), ("host", "H.")]);
        assert_eq!(lines(&for_http1(&headers, &host)), ["x: y", "host: H."]);
        assert_eq!(lines(&for_http2(&headers)), ["x: y"]);
    }

    #[test]
    fn only_a_plain_websocket_counts_as_an_upgrade() {
        let cases: &[(&[(&str, &str)], bool)] = &[
            (&[("connection", "Upgrade"), ("upgrade", "WebSocket")], true),
            (&[("connection", "keep-alive, upgrade"), ("upgrade", "websocket")], true),
            (&[("upgrade", "websocket")], false),
            (&[("connection", "upgrade"), ("upgrade", "h2c")], false),
            (&[("connection", "upgrade"), ("upgrade", "websocket, h2c")], false),
            (&[("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")], false),
        ];
        for (lines, expected) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in *lines {
                headers.append(
                    HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    HeaderValue::from_str(value).unwrap(),
                );
            }
            assert_eq!(asks_for_websocket(&headers), *expected, "{lines:?}");
        }
    }
}
