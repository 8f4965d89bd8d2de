//! A permitted request as it is sent.
//!
//! Invariant: it is built from a [`Permit`], so host and target are those that were permitted.

use std::borrow::Cow;

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use http_body::Body;
use sandbox_proxy_protocol::HostService;

use super::head::stand_in;
use crate::headers::{after_chunks, for_http1, for_http2, with_chunks};
use crate::policy::Permit;
use crate::upload::Upload;
use crate::upstream::{Destination, RawLine};

/// A permitted request, in a form that can be shaped for either protocol.
pub(super) struct Outgoing {
    /// Where it goes.
    pub(super) destination: Destination,
    method: Method,
    target: PathAndQuery,
    /// The target, if `target` is only its stand-in.
    raw_target: Option<Box<[u8]>>,
    headers: HeaderMap,
    /// The header that `Transfer-Encoding: chunked` precedes, if the body is chunked.
    after_chunks: Option<HeaderName>,
    extensions: http::Extensions,
}

impl Outgoing {
    /// The request that `permit` is for, with `headers`, and with the query of `signed` if its
    /// signature is there. `None` if hyper does not accept the target, which cannot happen since
    /// hyper read it, or if the path of `signed` is not the one that was permitted.
    pub(super) fn new(
        permit: &Permit,
        parts: Parts,
        headers: HeaderMap,
        signed: Option<&str>,
        service: Option<&HostService>,
    ) -> Option<Self> {
        let request = permit.request();
        let permitted = request.target().as_received();
        let wanted = signed.map_or(permitted, str::as_bytes);
        if path(wanted) != path(permitted) {
            return None;
        }
        let (target, raw_target) = match stand_in(wanted) {
            Cow::Borrowed(target) => (PathAndQuery::try_from(target).ok()?, None),
            Cow::Owned(target) => (PathAndQuery::try_from(target).ok()?, Some(wanted.into())),
        };
        let tls = request.scheme() == allowlist::Scheme::Https;
        Some(Self {
            destination: destination(permit, tls, service),
            method: parts.method,
            target,
            raw_target,
            after_chunks: after_chunks(&parts.headers, &headers),
            headers,
            // They hold the spelling of the header names.
            extensions: parts.extensions,
        })
    }

    /// The request in the form of HTTP/2 if `http2`, else of HTTP/1.
    pub(super) fn shape(&self, http2: bool, body: Upload) -> Request<Upload> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.extensions_mut() = self.extensions.clone();
        if http2 {
            *request.version_mut() = Version::HTTP_2;
            *request.uri_mut() = self.absolute();
            *request.headers_mut() = for_http2(&self.headers);
            return request;
        }
        *request.uri_mut() = Uri::from(self.target.clone());
        let host =
            HeaderValue::from_str(&self.destination.host).unwrap_or_else(|_| HeaderValue::from_static(""));
        *request.headers_mut() = for_http1(&self.headers, &host);
        let unsized_body = !request.body().is_end_stream() && !request.headers().contains_key(CONTENT_LENGTH);
        if unsized_body {
            // Otherwise hyper would send a GET without its body.
            *request.headers_mut() = with_chunks(request.headers(), self.after_chunks.as_ref());
        }
        request
    }

    /// The request line, if hyper would send a different one.
    pub(super) fn raw_line(&self) -> Option<RawLine> {
        let raw = self.raw_target.as_deref()?;
        let line = |target: &[u8]| [self.method.as_str().as_bytes(), b" ", target, b" HTTP/1.1\r\n"].concat();
        Some(RawLine { written: line(self.target.as_str().as_bytes()), sent: line(raw) })
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    fn absolute(&self) -> Uri {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(if self.destination.tls { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Authority::try_from(&*self.destination.host).ok();
        parts.path_and_query = Some(self.target.clone());
        Uri::from_parts(parts).unwrap_or_default()
    }
}

/// The destination of a permitted request. A host service sees the authority that the client used.
fn destination(permit: &Permit, tls: bool, service: Option<&HostService>) -> Destination {
    let host = permit.host().as_str();
    match service {
        None => Destination { host: host.into(), tls, service: None },
        Some(service) if service.port == permit.request().scheme().default_port() => {
            Destination { host: host.into(), tls: false, service: Some(service.socket.as_path().into()) }
        }
        Some(service) => Destination {
            host: format!("{host}:{}", service.port).into(),
            tls: false,
            service: Some(service.socket.as_path().into()),
        },
    }
}

fn path(target: &[u8]) -> &[u8] {
    target.split(|byte| *byte == b'?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use allowlist::Allowlist;
    use tokio::sync::watch;

    use super::*;
    use crate::policy::{Admission, Gate, LivePolicy};

    #[test]
    fn signature_changes_only_the_query() {
        let policy = Allowlist::from_yaml("domains: [a.example]", "policy.yaml").unwrap();
        let (_live, policy) = watch::channel(LivePolicy::new(policy));
        for (permitted, signed, sent) in [
            ("/a//b?x=1", None, Some("/a//b?x=1")),
            ("/a//b?\"x\"", None, Some("/a//b?%22x%22")),
            ("/a//b?x=1", Some("/a//b?<x>"), Some("/a//b?%3Cx%3E")),
            ("/a//b?x=1", Some("/a//b?x=2&y"), Some("/a//b?x=2&y")),
            ("/a//b?x=1", Some("/a//b"), Some("/a//b")),
            ("/a//b?x=1", Some("/a/b?x=1"), None),
            ("/a//b?x=1", Some("/a//b/c?x=1"), None),
            ("/a//b?x=1", Some("/a//B?x=1"), None),
            ("/a//b", Some("*"), None),
        ] {
            let scheme = allowlist::Scheme::Https;
            let request = allowlist::Request::from_wire(scheme, b"a.example", b"GET", permitted.as_bytes());
            let Ok(Admission::Permit(permit)) = Gate::new(policy.clone()).admit(request.unwrap()) else {
                panic!("the policy allows all of the host");
            };
            let (parts, ()) = Request::new(()).into_parts();
            let outgoing = Outgoing::new(&permit, parts, HeaderMap::new(), signed, None);
            let target = outgoing.as_ref().map(|outgoing| outgoing.target.as_str());
            assert_eq!(target, sent, "{permitted} {signed:?}");
            let line = outgoing.as_ref().and_then(Outgoing::raw_line).map(|line| line.sent);
            let raw = sent.is_some_and(|sent| sent != signed.unwrap_or(permitted));
            let expected =
                raw.then(|| format!("GET {} HTTP/1.1\r\n", signed.unwrap_or(permitted)).into_bytes());
            assert_eq!(line, expected);
        }
    }
}
