//! Sending a permitted request to its upstream, and the answer back.
//!
//! Invariant: [`forward`] takes a [`Permit`] and builds the request from it, so host and target are those that were permitted.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::body::Download;
use super::deny::Unsent;
use super::exchange::Exchange;
use super::head::stand_in;
use super::headers::{after_chunks, for_http1, for_http2, is_recoded, response_headers, with_chunks};
use super::upload::Upload;
use crate::gate::Permit;
use crate::scrub::{Needles, Scrubbed, UnknownEncoding, plan_body};
use crate::upstream::{Destination, Failure, Lease, Pool, RawLine, UpstreamError};

/// How often a request is tried over connections that turn out to be closed; the last try has a connection of its own.
const TRIES: usize = 3;

/// A permitted request, in a form that can be shaped for either protocol.
pub(super) struct Outgoing {
    /// Where it goes.
    pub(super) destination: Destination,
    method: Method,
    target: PathAndQuery,
    /// The target, where `target` is only its stand-in.
    raw_target: Option<Box<[u8]>>,
    headers: HeaderMap,
    /// The header before which it says that its body comes in chunks, where the body does.
    after_chunks: Option<HeaderName>,
    extensions: http::Extensions,
}

impl Outgoing {
    /// The request that `permit` is for, with `headers`, and with the query of `signed` if its signature is there. `None` if the target
    /// is none for hyper, which cannot be since hyper read it, or if `signed` has another path than was permitted.
    pub(super) fn new(
        permit: &Permit,
        parts: Parts,
        headers: HeaderMap,
        signed: Option<&str>,
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
            destination: Destination {
                host: permit.host().as_str().into(),
                tls,
            },
            method: parts.method,
            target,
            raw_target,
            after_chunks: after_chunks(&parts.headers, &headers),
            headers,
            // The spelling of the header names is in there.
            extensions: parts.extensions,
        })
    }

    /// The request for a connection that speaks HTTP/2 or does not.
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
            // hyper would send GET without its body.
            *request.headers_mut() = with_chunks(request.headers(), self.after_chunks.as_ref());
        }
        request
    }

    /// The first line, where hyper would send another.
    pub(super) fn raw_line(&self) -> Option<RawLine> {
        let raw = self.raw_target.as_deref()?;
        let line = |target: &[u8]| [self.method.as_str().as_bytes(), b" ", target, b" HTTP/1.1\r\n"].concat();
        Some(RawLine {
            written: line(self.target.as_str().as_bytes()),
            sent: line(raw),
        })
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    fn absolute(&self) -> Uri {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(if self.destination.tls {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        });
        parts.authority = Authority::try_from(&*self.destination.host).ok();
        parts.path_and_query = Some(self.target.clone());
        Uri::from_parts(parts).unwrap_or_default()
    }
}

fn path(target: &[u8]) -> &[u8] {
    target.split(|byte| *byte == b'?').next().unwrap_or_default()
}

/// Forwards a request; the answer's head as it goes to the client, its body still on its way.
pub(super) async fn forward(
    pool: &Arc<Pool>,
    outgoing: &Outgoing,
    body: Upload,
    patience: Option<Duration>,
) -> Result<(Response<Incoming>, Lease), UpstreamError> {
    if let Some(line) = outgoing.raw_line() {
        // Only in HTTP/1 can the target be sent as it came.
        let lease = pool.lease_http1(&outgoing.destination, Some(line)).await?;
        return try_over(lease, outgoing, body, patience).await;
    }
    let mut body = body;
    for _ in 1..TRIES {
        let lease = pool.lease(&outgoing.destination).await?;
        let reused = lease.is_reused();
        match attempt(lease, outgoing, body, patience).await {
            Ok(answered) => return Ok(answered),
            // Nothing of it was sent over a connection that had been closed meanwhile.
            Err(Unanswered {
                body: Some(unsent), ..
            }) if reused => body = unsent,
            Err(Unanswered { error, .. }) => return Err(error),
        }
    }
    let lease = pool.lease_new(&outgoing.destination).await?;
    attempt(lease, outgoing, body, patience)
        .await
        .map_err(|unanswered| unanswered.error)
}

struct Unanswered {
    error: UpstreamError,
    body: Option<Upload>,
}

/// One try over one connection.
pub(super) async fn try_over(
    lease: Lease,
    outgoing: &Outgoing,
    body: Upload,
    patience: Option<Duration>,
) -> Result<(Response<Incoming>, Lease), UpstreamError> {
    attempt(lease, outgoing, body, patience)
        .await
        .map_err(|unanswered| unanswered.error)
}

async fn attempt(
    mut lease: Lease,
    outgoing: &Outgoing,
    body: Upload,
    patience: Option<Duration>,
) -> Result<(Response<Incoming>, Lease), Unanswered> {
    let request = outgoing.shape(lease.is_http2(), body);
    let sending = lease.send(request);
    let sent = match patience {
        None => sending.await,
        Some(patience) => timeout(patience, sending).await.map_err(|_| Unanswered {
            error: UpstreamError::told(Failure::Timeout, "the answer did not begin in time"),
            body: None,
        })?,
    };
    match sent {
        Ok(response) => Ok((response, lease)),
        Err(failed) => {
            let error = match &failed.error {
                Some(error) => UpstreamError::new(kind(error), error),
                None => UpstreamError::told(Failure::Reset, "the connection is gone"),
            };
            Err(Unanswered {
                error,
                body: failed.request.map(|request| request.into_body()),
            })
        }
    }
}

fn kind(error: &hyper::Error) -> Failure {
    let mut next = error.source();
    while let Some(cause) = next {
        let io = cause.downcast_ref::<std::io::Error>();
        if io.is_some_and(|cause| cause.kind() == std::io::ErrorKind::TimedOut) {
            return Failure::Timeout;
        }
        next = cause.source();
    }
    Failure::Reset
}

/// The answer as the client gets it, without what is in `needles`; or why it does not get it. An informational or switching status
/// can no longer be one here: that is for the caller to see.
pub(super) fn respond(
    answer: Response<Incoming>,
    lease: Lease,
    mut exchange: Exchange,
    method: &Method,
    needles: Option<&Arc<Needles>>,
) -> Result<Response<Download>, Box<(Exchange, Unsent)>> {
    let (mut parts, incoming) = answer.into_parts();
    let recoded = is_recoded(&parts.headers);
    parts.headers = response_headers(&parts.headers);
    parts.version = Version::default();
    let Some(needles) = needles else {
        exchange.answered(parts.status);
        return Ok(Response::from_parts(
            parts,
            Download::upstream(incoming, lease, exchange),
        ));
    };
    parts.headers = exchange.scrubbed_headers(needles, parts.headers);
    exchange.scrub_reason(needles, &mut parts.extensions);
    let scrub = match plan_body(needles, method, parts.status, recoded, &mut parts.headers) {
        Ok(scrub) => scrub,
        Err(error) => return Err(Box::new((exchange, unreadable(error)))),
    };
    exchange.answered(parts.status);
    let scrubbed = Scrubbed::new(incoming, scrub, exchange.scrub_counter());
    Ok(Response::from_parts(
        parts,
        Download::scrubbed(scrubbed, Arc::clone(needles), lease, exchange),
    ))
}

fn unreadable(error: UnknownEncoding) -> Unsent {
    Unsent {
        status: StatusCode::BAD_GATEWAY,
        reason: "encoding",
        message: format!(
            "the answer cannot be searched for credentials: {error}; ask for gzip, br, zstd or no encoding, or set \
             `allow_echo: true` for every credential of this host"
        ),
        record: format!("Scrub: {error}"),
    }
}

/// Whether an upstream may answer a plain request so: it may not change the protocol.
pub(super) fn is_plain(status: StatusCode) -> bool {
    !status.is_informational()
}

#[cfg(test)]
mod tests {
    use allowlist::Allowlist;
    use tokio::sync::watch;

    use super::*;
    use crate::gate::Gate;
    use crate::policy::LivePolicy;

    #[test]
    fn a_signature_changes_the_query_and_nothing_else() {
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
            let permit = Gate::new(policy.clone()).admit(request.unwrap()).unwrap();
            let (parts, ()) = Request::new(()).into_parts();
            let outgoing = Outgoing::new(&permit, parts, HeaderMap::new(), signed);
            let target = outgoing.as_ref().map(|outgoing| outgoing.target.as_str());
            assert_eq!(target, sent, "{permitted} {signed:?}");
            let line = outgoing
                .as_ref()
                .and_then(Outgoing::raw_line)
                .map(|line| line.sent);
            let raw = sent.is_some_and(|sent| sent != signed.unwrap_or(permitted));
            let expected =
                raw.then(|| format!("GET {} HTTP/1.1\r\n", signed.unwrap_or(permitted)).into_bytes());
            assert_eq!(line, expected);
        }
    }
}
