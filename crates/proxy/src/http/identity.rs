//! Determines the host that a request is for: one host, or none.
//!
//! SNI, `:authority`, `Host` and an absolute target each name a host. A request can be judged only
//! if all of them that are present name the same host.

use std::borrow::Cow;

use allowlist::{AbsoluteUrl, Authority, HostName, Reason, Request, Scheme};
use http::header::HOST;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Version};

use crate::policy::Blocked;

/// The client's request at `port`, if it has only one reading. `raw_target` is as in
/// [`origin_form`].
///
/// # Errors
///
/// Reason `identity` if a name is missing, duplicated or malformed, `identity_mismatch` if two
/// differ, and those of [`Request::from_wire`].
pub(super) fn identify(
    parts: &Parts,
    scheme: Scheme,
    port: u16,
    server_name: Option<&HostName>,
    raw_target: Option<&[u8]>,
) -> Result<Request, Blocked> {
    let target = origin_form(parts, raw_target);
    let authority = authority(parts, scheme, port)?;
    if let Some(server_name) = server_name
        && authority.host() != server_name
    {
        return Err(Blocked::identity_mismatch());
    }
    let wire = wire_form(&authority, port);
    let method = parts.method.as_str().as_bytes();
    Ok(Request::from_wire(scheme, wire.as_bytes(), method, &target)?)
}

/// Path and query as received. If an absolute target omits the path, it is `/`, as clients send it.
/// `raw_target` is the target of the request line, if hyper got a different one.
pub(super) fn origin_form<'a>(parts: &'a Parts, raw_target: Option<&'a [u8]>) -> Cow<'a, [u8]> {
    if let Some(raw) = raw_target {
        return AbsoluteUrl::split(raw).map_or(Cow::Borrowed(raw), |url| url.target());
    }
    let target = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
    if target.starts_with('?') && parts.uri.authority().is_some() {
        return Cow::Owned([b"/", target.as_bytes()].concat());
    }
    Cow::Borrowed(target.as_bytes())
}

/// The authority, with a port only if that is not `expected`: the policy knows only the ports of
/// schemes.
fn wire_form(authority: &Authority, expected: u16) -> String {
    match authority.port() {
        Some(port) if port != expected => format!("{}:{port}", authority.host()),
        _ => authority.host().to_string(),
    }
}

/// The authority that all parts of the request agree on.
fn authority(parts: &Parts, scheme: Scheme, port: u16) -> Result<Authority, Blocked> {
    let host = host_header(parts)?;
    if let Some(named) = parts.uri.scheme_str()
        && named != scheme.as_str()
    {
        return Err(Blocked::new(
            Reason::Identity,
            "the request names another scheme than that of its connection: send http requests to port 80 \
             and https requests to port 443",
        ));
    }
    let target = parts
        .uri
        .authority()
        .map(|authority| Authority::from_wire(authority.as_str().as_bytes()))
        .transpose()?;
    let http2 = parts.version == Version::HTTP_2;
    match (target, host) {
        (Some(target), Some(host)) => {
            if target.host() != host.host() {
                return Err(Blocked::identity_mismatch());
            }
            // A port that only one of them names is judged too.
            Ok(if target.port().is_some() && target.port() != Some(port) { target } else { host })
        }
        (None, Some(host)) => Ok(host),
        (Some(target), None) if http2 => Ok(target),
        (_, None) => {
            Err(Blocked::new(Reason::Identity, "the request names no host: send exactly one Host header"))
        }
    }
}

/// The only Host header, if there is one.
fn host_header(parts: &Parts) -> Result<Option<Authority>, Blocked> {
    let mut lines = parts.headers.get_all(HOST).iter();
    let host = lines.next().map(HeaderValue::as_bytes);
    if lines.next().is_some() {
        return Err(Blocked::new(
            Reason::Identity,
            "the request has more than one Host header: send exactly one",
        ));
    }
    Ok(host.map(Authority::from_wire).transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: Version, uri: &str, hosts: &[&str], scheme: Scheme, sni: Option<&str>) -> String {
        let mut builder = http::Request::builder().method("GET").uri(uri).version(version);
        for host in hosts {
            builder = builder.header(HOST, *host);
        }
        let (parts, ()) = builder.body(()).unwrap().into_parts();
        let sni = sni.map(|name| HostName::from_wire(name.as_bytes()).unwrap());
        match identify(&parts, scheme, scheme.default_port(), sni.as_ref(), None) {
            Ok(request) => request.host().to_string(),
            Err(denial) => format!("! {}", denial.reason()),
        }
    }

    #[test]
    fn host_of_plain_http1_is_identified() {
        let cases: &[(&str, &[&str], &str)] = &[
            ("/", &["a.example"], "a.example"),
            ("/", &["A.Example."], "a.example"),
            ("/", &["a.example:80"], "a.example"),
            ("/", &["10.1.2.3"], "10.1.2.3"),
            ("/", &["a.example:8080"], "! port"),
            ("/", &["a.example:443"], "! port"),
            ("/", &[], "! identity"),
            ("/", &[""], "! identity"),
            ("/", &["a.example", "a.example"], "! identity"),
            ("/", &["a.example,b.example"], "! identity"),
            ("/", &["user@a.example"], "! identity"),
            ("/", &["[::1]"], "! identity"),
            ("/", &["2130706433"], "! identity"),
            ("/", &["0x7f.1"], "! identity"),
            ("/", &["0177.0.0.1"], "! identity"),
            ("/", &["a..example"], "! identity"),
            ("/", &["a.example:"], "! identity"),
            ("http://a.example/", &["a.example"], "a.example"),
            ("http://a.example:80/", &["a.example"], "a.example"),
            ("http://a.example/", &["a.example:80"], "a.example"),
            ("http://a.example:81/", &["a.example"], "! port"),
            ("http://a.example/", &["a.example:81"], "! port"),
            ("http://a.example?x", &["a.example"], "a.example"),
            ("http://b.example/", &["a.example"], "! identity_mismatch"),
            ("http://u@a.example/", &["a.example"], "! identity"),
            ("http://a.example/", &[], "! identity"),
            ("https://a.example/", &["a.example"], "! identity"),
            ("ftp://a.example/", &["a.example"], "! identity"),
            ("/../x", &["a.example"], "! path"),
            ("*", &["a.example"], "! path"),
        ];
        for (uri, hosts, expected) in cases {
            assert_eq!(check(Version::HTTP_11, uri, hosts, Scheme::Http, None), *expected, "{uri} {hosts:?}");
        }
    }

    #[test]
    fn target_is_judged_as_received() {
        let (parts, ()) = http::Request::get("http://a.example?x").body(()).unwrap().into_parts();
        for (raw, expected) in [
            (None, "/?x"),
            (Some("http://a.example?\"x\""), "/?\"x\""),
            (Some("http://a.example/b?<x>"), "/b?<x>"),
            (Some("/?\"x\""), "/?\"x\""),
        ] {
            let target = origin_form(&parts, raw.map(str::as_bytes));
            assert_eq!(target, expected.as_bytes(), "{raw:?}");
        }
    }

    #[test]
    fn host_over_tls_must_match_the_server_name() {
        let sni = Some("a.example");
        let cases: &[(Version, &str, &[&str], &str)] = &[
            (Version::HTTP_11, "/", &["a.example"], "a.example"),
            (Version::HTTP_11, "/", &["a.example:443"], "a.example"),
            (Version::HTTP_11, "/", &["b.example"], "! identity_mismatch"),
            (Version::HTTP_11, "/", &["a.example:80"], "! port"),
            (Version::HTTP_11, "http://a.example/", &["a.example"], "! identity"),
            (Version::HTTP_2, "https://a.example/", &[], "a.example"),
            (Version::HTTP_2, "https://A.EXAMPLE:443/", &[], "a.example"),
            (Version::HTTP_2, "https://a.example/", &["a.example"], "a.example"),
            (Version::HTTP_2, "https://b.example/", &[], "! identity_mismatch"),
            (Version::HTTP_2, "https://a.example/", &["b.example"], "! identity_mismatch"),
            (Version::HTTP_2, "https://b.example/", &["a.example"], "! identity_mismatch"),
            (Version::HTTP_2, "http://a.example/", &[], "! identity"),
            (Version::HTTP_2, "https://a.example:8443/", &[], "! port"),
            (Version::HTTP_2, "https://u:p@a.example/", &[], "! identity"),
        ];
        for (version, uri, hosts, expected) in cases {
            assert_eq!(
                check(*version, uri, hosts, Scheme::Https, sni),
                *expected,
                "{version:?} {uri} {hosts:?}"
            );
        }
    }

    #[test]
    fn address_over_tls_is_refused() {
        assert_eq!(check(Version::HTTP_11, "/", &["10.1.2.3"], Scheme::Https, None), "! no_sni");
    }
}
