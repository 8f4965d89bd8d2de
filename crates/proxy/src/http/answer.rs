//! The upstream's response, as sent to the client.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use sandbox_proxy_protocol::TunnelRecord;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::body::Download;
use super::client::Client;
use super::deny::{self, Unsent};
use super::exchange::Exchange;
use super::forward::{forward, try_over};
use super::outbound::{Unprepared, malformed, unchunked};
use super::outgoing::Outgoing;
use super::refusal::{answer_with, give_up, refuse, too_busy};
use super::upgrade::Tunnel;
use crate::headers::{is_recoded, response_headers};
use crate::policy::{Blocked, Permit, TokenReport};
use crate::scrub::{BodyScrub, Needles, UnknownEncoding, plan_body};
use crate::upload::{Upload, UploadError, UploadErrorSlot};
use crate::upstream::{Failure, Lease, UpstreamError};

/// How long the beginning of a response waits for the end of a push. The wait must be bounded: the
/// server may be waiting for its response to be read.
const HELD: Duration = Duration::from_mins(1);

/// The recipient of a response, and the state needed to deliver it.
pub(super) struct Answered<'a> {
    pub(super) client: &'a Arc<Client>,
    pub(super) permit: &'a Permit,
    pub(super) method: Method,
    /// Values that the response must not contain.
    pub(super) needles: Option<Arc<Needles>>,
    /// Why the request's body was aborted, if it was.
    pub(super) error: UploadErrorSlot,
    /// Closes once it is known whether the body was aborted; `None` where nothing has to be proven.
    pub(super) proven: Option<oneshot::Receiver<Infallible>>,
}

impl Answered<'_> {
    /// Forwards the request.
    pub(super) async fn forward(
        mut self,
        outgoing: Outgoing,
        upload: Upload,
        exchange: Exchange,
    ) -> Response<Download> {
        let response_timeout = self.client.response_timeout();
        match forward(&self.client.shared.pool, &outgoing, upload, response_timeout).await {
            Ok((answer, lease)) if is_plain(answer.status()) => {
                // A server may begin its response before the push has ended.
                if let Some(proven) = self.proven.take().filter(|_| answer.status().is_success()) {
                    // No value is ever sent: the closing of the channel is the signal. If it does
                    // not come in time, the response is forwarded, and is cut off where the push
                    // is.
                    let _ = timeout(HELD, proven).await;
                    if self.error.get().is_some() {
                        let error = UpstreamError::of_text(Failure::Reset, "the push was aborted");
                        return self.fail(&error, exchange);
                    }
                }
                self.respond(answer, lease, exchange)
            }
            Ok(_) => self.fail(
                &UpstreamError::of_text(
                    Failure::Reset,
                    "the upstream changed the protocol without being asked",
                ),
                exchange,
            ),
            Err(error) => self.fail(&error, exchange),
        }
    }

    /// Opens a WebSocket if the upstream agrees to it.
    pub(super) async fn open(
        self,
        outgoing: Outgoing,
        upload: Upload,
        websocket: OnUpgrade,
        exchange: Exchange,
    ) -> Response<Download> {
        let client = self.client;
        // Reserved before the upstream is asked: an open tunnel cannot be refused for lack of a
        // record.
        let Ok(slot) = client.shared.context.recorder.reserve().await else {
            return refuse(&too_busy("requests cannot be recorded"), exchange);
        };
        let opened = async {
            let line = outgoing.raw_line();
            let lease = client.shared.pool.lease_http1(&outgoing.destination, line).await?;
            try_over(lease, &outgoing, upload, client.response_timeout()).await
        };
        let (mut answer, lease) = match opened.await {
            Ok(answered) => answered,
            Err(error) => return self.fail(&error, exchange),
        };
        // The upstream declined; its response gives the reason.
        if is_plain(answer.status()) {
            return self.respond(answer, lease, exchange);
        }
        let agreed =
            answer.headers().get(UPGRADE).is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS || !agreed {
            let error = UpstreamError::of_text(
                Failure::Reset,
                "the upstream switched to a protocol that was not asked for",
            );
            return self.fail(&error, exchange);
        }
        let record = TunnelRecord {
            scheme: client.scheme,
            host: self.permit.host().to_string(),
            target: String::from_utf8_lossy(self.permit.request().target().as_received()).into_owned(),
            bytes_up: 0,
            bytes_down: 0,
            duration_ms: 0,
        };
        let upstream = hyper::upgrade::on(&mut answer);
        client.framing.tunnel();
        client.hold(Tunnel::new(websocket, upstream, lease, slot, record, exchange.spending()));
        self.switch(&answer, exchange)
    }

    /// The response as sent to the client, without the values in `needles`. The caller must have
    /// ruled out an informational or switching status.
    fn respond(
        &self,
        answer: Response<Incoming>,
        lease: Lease,
        mut exchange: Exchange,
    ) -> Response<Download> {
        let (mut parts, incoming) = answer.into_parts();
        let recoded = is_recoded(&parts.headers);
        parts.headers = response_headers(&parts.headers);
        parts.version = Version::default();
        let mut scrub = BodyScrub::Pass;
        if let Some(needles) = &self.needles {
            parts.headers = exchange.scrubbed_headers(needles, parts.headers);
            exchange.scrub_reason(needles, &mut parts.extensions);
            scrub = match plan_body(needles, &self.method, parts.status, recoded, &mut parts.headers) {
                Ok(scrub) => scrub,
                Err(error) => return give_up(Unprepared::Failed(unreadable(error)), exchange),
            };
        }
        if let Err(error) = self.read_usage(recoded, &parts.headers, &mut exchange) {
            return give_up(Unprepared::Failed(error), exchange);
        }
        exchange.answered(parts.status);
        let body = Download::upstream(incoming, scrub, self.needles.clone(), lease, exchange);
        Response::from_parts(parts, body)
    }

    /// Arranges for the reported tokens to be read from the response if it may report any.
    /// `headers` are those of the forwarded body.
    ///
    /// # Errors
    ///
    /// If the budget bounds tokens and the response cannot be read.
    fn read_usage(&self, recoded: bool, headers: &HeaderMap, exchange: &mut Exchange) -> Result<(), Unsent> {
        let Some(spending) = exchange.spending().filter(|_| self.permit.tokens() == TokenReport::Response)
        else {
            return Ok(());
        };
        let mut codings = headers.get_all(CONTENT_ENCODING).iter();
        if !recoded && codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            exchange.read_usage();
        } else if spending.bounds_tokens() {
            return Err(uncounted());
        }
        Ok(())
    }

    /// The 101 as sent to the client.
    fn switch(&self, answer: &Response<Incoming>, mut exchange: Exchange) -> Response<Download> {
        exchange.answered(StatusCode::SWITCHING_PROTOCOLS);
        let mut headers = response_headers(answer.headers());
        if let Some(needles) = &self.needles {
            headers = exchange.scrubbed_headers(needles, headers);
        }
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        let mut response = Response::new(Download::page(bytes::Bytes::new(), Some(exchange)));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = headers;
        response
    }

    /// The response to a request for which the upstream sent none.
    fn fail(&self, error: &UpstreamError, mut exchange: Exchange) -> Response<Download> {
        match error.kind() {
            Failure::Address => return refuse(&Blocked::address(self.permit.host()), exchange),
            Failure::OwnAddress => return refuse(&Blocked::own_address(self.permit.host()), exchange),
            _ => {}
        }
        match self.error.get() {
            Some(UploadError::Chunk(error)) => return give_up(unchunked(error), exchange),
            Some(UploadError::Refused(denial)) => return refuse(denial, exchange),
            None => {}
        }
        if self.client.framing.body_is_malformed() {
            return give_up(malformed(), exchange);
        }
        exchange.failed(error.to_string());
        answer_with(deny::failed(exchange.audience(), error), exchange)
    }
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

fn uncounted() -> Unsent {
    Unsent {
        status: StatusCode::BAD_GATEWAY,
        reason: "encoding",
        message: "the tokens that the answer reports cannot be counted: it is compressed, although this was not asked for; leave \
                  `input_tokens` and `output_tokens` out of the policy's `budget` for this host"
            .to_owned(),
        record: "Budget: the answer is compressed, so the tokens that it reports cannot be counted".to_owned(),
    }
}

/// Whether an upstream may answer a plain request with `status`: it must not switch protocols.
fn is_plain(status: StatusCode) -> bool {
    !status.is_informational()
}
