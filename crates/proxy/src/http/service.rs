//! One request: framing, identity, gate, and then the upstream or a refusal.

use std::convert::Infallible;
use std::sync::Arc;

use allowlist::{Authority, Reason, Scheme};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use sandbox_proxy_protocol::{BlockReason, RequestRecord, TunnelRecord};

use super::body::Download;
use super::buffer::Unwanted;
use super::chunk_signing::ChunkFault;
use super::connection::Client;
use super::deny;
use super::exchange::{Asked, Exchange};
use super::forward::{Outgoing, forward, is_plain, respond, try_over};
use super::framing::Note;
use super::head::{HeadFault, RefusedHead};
use super::headers::{
    RequestRules, asks_for_websocket, overrides_method, overrides_path, request_headers, response_headers,
};
use super::identity::{identify, origin_form};
use super::outbound::{Unprepared, malformed, prepare, unchunked};
use super::upgrade::Tunnel;
use super::upload::Upload;
use crate::blocked::Blocked;
use crate::fields::only;
use crate::gate::Permit;
use crate::scrub::Needles;
use crate::upstream::{Failure, Lease, UpstreamError};

/// Answers one request of `client`; `note` is what hyper could not be shown of its head.
pub(super) async fn answer(
    client: Arc<Client>,
    request: Request<Incoming>,
    note: Option<Note>,
) -> Result<Response<Download>, Infallible> {
    let http1 = request.version() != Version::HTTP_2;
    let mut response = handle(&client, request, note).await;
    if http1 {
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            client.framing().answered();
        }
    } else if response.headers().contains_key(CONNECTION) {
        let headers = response.headers_mut();
        *headers = only(headers, |name| *name != CONNECTION);
    }
    Ok(response)
}

async fn handle(client: &Arc<Client>, request: Request<Incoming>, note: Option<Note>) -> Response<Download> {
    let (parts, body) = request.into_parts();
    let (refused, raw_target) = match note {
        Some(Note::Refused(head)) => (Some(head), None),
        Some(Note::Target(target)) => (None, Some(target)),
        None => (None, None),
    };
    let asked = describe(client, &parts, refused.as_ref(), raw_target.as_deref());
    let http2 = parts.version == Version::HTTP_2;
    let Ok(permit) = Arc::clone(client.requests()).try_acquire_owned() else {
        client.count_refused_request();
        return turn_away(client, asked, http2, "too many requests are in progress");
    };
    let Ok(slot) = client.recorder().reserve().await else {
        return turn_away(client, asked, http2, "requests cannot be recorded");
    };
    let exchange = Exchange::begin(asked, slot, Some(permit), client.begin());
    let judged = match &refused {
        Some(head) => Err(head_denial(head.fault)),
        None => judge(client, &parts, raw_target.as_deref()),
    };
    match judged {
        Ok(permit) => pass(client, permit, parts, body, exchange).await,
        Err(denial) => {
            if refused.is_none() {
                Unwanted::of(&parts.headers).leave(body);
            }
            refuse(&denial, exchange)
        }
    }
}

fn describe(
    client: &Client,
    parts: &Parts,
    refused: Option<&RefusedHead>,
    raw_target: Option<&[u8]>,
) -> Asked {
    let (method, host, target) = if let Some(head) = refused {
        (head.method.clone(), head.host.clone(), head.target.clone())
    } else {
        let host = match (parts.uri.authority(), parts.headers.get(HOST)) {
            (Some(authority), _) => authority.as_str().to_owned(),
            (None, Some(host)) => String::from_utf8_lossy(host.as_bytes()).into_owned(),
            (None, None) => client.server_name().map(ToString::to_string).unwrap_or_default(),
        };
        let target = String::from_utf8_lossy(&origin_form(parts, raw_target)).into_owned();
        (parts.method.as_str().to_owned(), host, target)
    };
    let host = canonical(host, client.scheme());
    Asked {
        record: RequestRecord::asked(method, client.scheme(), host, target),
        html: deny::prefers_html(&parts.headers),
    }
}

/// The host in its canonical form where it has one, else as received.
fn canonical(host: String, scheme: Scheme) -> String {
    let default_port = scheme.default_port();
    match Authority::from_wire(host.as_bytes()) {
        Ok(authority) if authority.port().is_none_or(|port| port == default_port) => {
            authority.host().to_string()
        }
        _ => host,
    }
}

fn judge(client: &Client, parts: &Parts, raw_target: Option<&[u8]>) -> Result<Permit, Blocked> {
    if parts.headers.len() > client.max_headers() {
        return Err(head_denial(HeadFault::TooManyHeaders));
    }
    if parts.version == Version::HTTP_2 {
        check_http2(parts, client.max_head_bytes())?;
    }
    let request = identify(parts, client.scheme(), client.server_name(), raw_target)?;
    client.gate().admit(request)
}

/// What the reader of HTTP/1 heads checks, as far as it can be wrong in HTTP/2.
fn check_http2(parts: &Parts, max_bytes: usize) -> Result<(), Blocked> {
    // As RFC 9113 counts the size of a header list.
    let lines = parts.headers.iter();
    let bytes: usize = lines
        .map(|(name, value)| name.as_str().len() + value.len() + 32)
        .sum();
    if bytes > max_bytes {
        return Err(head_denial(HeadFault::TooLarge));
    }
    if parts.headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(head_denial(HeadFault::Malformed(
            "the request has more than one content-length",
        )));
    }
    Ok(())
}

fn head_denial(fault: HeadFault) -> Blocked {
    let reason = match fault {
        HeadFault::TooLarge | HeadFault::TooManyHeaders => BlockReason::HeadTooLarge,
        HeadFault::Late => BlockReason::Timeout,
        HeadFault::Target => Reason::Path.into(),
        HeadFault::Malformed(_) => BlockReason::Framing,
    };
    Blocked::new(reason, fault.to_string())
}

fn too_busy(what: &str) -> Blocked {
    Blocked::new(BlockReason::Limit, format!("{what}: try again later"))
}

fn log_is_full() -> Blocked {
    Blocked::new(
        BlockReason::Limit,
        "the network log of this task is full, and nothing passes without a record: end the task and begin another",
    )
}

/// Refuses a request that there is no room for, so that nothing of it stays: its record is written at once, and over HTTP/2, where
/// there may be thousands more of them, the headers alone say why. Where the queue has no place, nothing was done that would need a
/// record.
fn turn_away(client: &Client, asked: Asked, http2: bool, what: &str) -> Response<Download> {
    let denial = too_busy(what);
    let page = deny::blocked(asked.audience(), &denial);
    if let Ok(slot) = client.recorder().try_reserve() {
        let mut exchange = Exchange::begin(asked, slot, None, client.begin());
        exchange.blocked(&denial);
        exchange.answered(page.status());
    }
    let mut response = page.map(|page| Download::page(page, None));
    if http2 {
        *response.body_mut() = Download::page(bytes::Bytes::new(), None);
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(0));
    }
    response
}

fn refuse(denial: &Blocked, mut exchange: Exchange) -> Response<Download> {
    exchange.blocked(denial);
    let page = deny::blocked(exchange.audience(), denial);
    tell(page, exchange)
}

/// Ends an exchange with words of our own.
fn tell(page: Response<bytes::Bytes>, mut exchange: Exchange) -> Response<Download> {
    exchange.answered(page.status());
    page.map(|page| Download::page(page, Some(exchange)))
}

/// Passes a permitted request on.
async fn pass(
    client: &Arc<Client>,
    permit: Permit,
    mut parts: Parts,
    body: Incoming,
    mut exchange: Exchange,
) -> Response<Download> {
    let upgrade = parts.extensions.remove::<OnUpgrade>();
    let websocket = upgrade.filter(|_| {
        let bodiless = http_body::Body::is_end_stream(&body);
        asks_for_websocket(&parts.headers) && parts.method == http::Method::GET && bodiless
    });
    let rules = RequestRules {
        strip_method_override: permit.method_counts(),
        strip_path_override: permit.path_counts(),
        websocket: websocket.is_some(),
    };
    let Some(headers) = request_headers(&parts.headers, rules) else {
        let denial = Blocked::new(
            BlockReason::Framing,
            "the Connection header names a header that must not be dropped: leave it out",
        );
        return refuse(&denial, exchange);
    };
    if permit.method_counts() && overrides_method(&parts.headers) {
        client.warn(format!(
            "removed a header that would override the method {} of a request to {}",
            parts.method,
            permit.host()
        ));
    }
    if permit.path_counts() && overrides_path(&parts.headers) {
        client.warn(format!(
            "removed a header that would override the path of a request to {}",
            permit.host()
        ));
    }
    exchange.allowed(permit.host().as_str(), permit.rule().clone());
    if !exchange.fits(client.log(), websocket.is_some()) {
        return refuse(&log_is_full(), exchange);
    }
    exchange.announce(client.recorder());
    let prepared = match prepare(client, &permit, parts, headers, body, &mut exchange).await {
        Ok(prepared) => prepared,
        Err(unprepared) => return give_up(unprepared, exchange),
    };
    let answered = Answered {
        client,
        permit: &permit,
        method: prepared.outgoing.method().clone(),
        needles: prepared.needles,
        fault: prepared.fault,
    };
    match websocket {
        Some(websocket) => {
            answered
                .open(prepared.outgoing, prepared.upload, websocket, exchange)
                .await
        }
        None => {
            answered
                .forward(prepared.outgoing, prepared.upload, exchange)
                .await
        }
    }
}

/// Whom an answer is for, and how it gets there.
struct Answered<'a> {
    client: &'a Arc<Client>,
    permit: &'a Permit,
    method: Method,
    /// What it must not bring back.
    needles: Option<Arc<Needles>>,
    /// Why the request's body could not be signed.
    fault: ChunkFault,
}

impl Answered<'_> {
    async fn forward(self, outgoing: Outgoing, upload: Upload, exchange: Exchange) -> Response<Download> {
        let patience = self.client.response_patience();
        match forward(self.client.pool(), &outgoing, upload, patience).await {
            Ok((answer, lease)) if is_plain(answer.status()) => self.respond(answer, lease, exchange),
            Ok(_) => self.fail(
                &UpstreamError::told(
                    Failure::Reset,
                    "the upstream changed the protocol without being asked",
                ),
                exchange,
            ),
            Err(error) => self.fail(&error, exchange),
        }
    }

    /// Opens a WebSocket, if the upstream does.
    async fn open(
        self,
        outgoing: Outgoing,
        upload: Upload,
        websocket: OnUpgrade,
        exchange: Exchange,
    ) -> Response<Download> {
        let client = self.client;
        let Ok(slot) = client.recorder().reserve().await else {
            return refuse(&too_busy("requests cannot be recorded"), exchange);
        };
        let opened = async {
            let line = outgoing.raw_line();
            let lease = client.pool().lease_http1(&outgoing.destination, line).await?;
            try_over(lease, &outgoing, upload, client.response_patience()).await
        };
        let (mut answer, lease) = match opened.await {
            Ok(answered) => answered,
            Err(error) => return self.fail(&error, exchange),
        };
        if is_plain(answer.status()) {
            return self.respond(answer, lease, exchange);
        }
        let agreed = answer
            .headers()
            .get(UPGRADE)
            .is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS || !agreed {
            let error = UpstreamError::told(
                Failure::Reset,
                "the upstream switched to a protocol that was not asked for",
            );
            return self.fail(&error, exchange);
        }
        let record = TunnelRecord {
            scheme: client.scheme(),
            host: self.permit.host().to_string(),
            target: String::from_utf8_lossy(self.permit.request().target().as_received()).into_owned(),
            bytes_up: 0,
            bytes_down: 0,
            duration_ms: 0,
        };
        let upstream = hyper::upgrade::on(&mut answer);
        client.framing().tunnel();
        client.hold(Tunnel::new(websocket, upstream, lease, slot, record));
        self.switch(&answer, exchange)
    }

    /// The answer as the client gets it.
    fn respond(&self, answer: Response<Incoming>, lease: Lease, exchange: Exchange) -> Response<Download> {
        match respond(answer, lease, exchange, &self.method, self.needles.as_ref()) {
            Ok(response) => response,
            Err(failed) => {
                let (exchange, unsent) = *failed;
                give_up(Unprepared::Failed(unsent), exchange)
            }
        }
    }

    /// The 101 as the client gets it.
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

    /// What the client gets when its request had no answer.
    fn fail(&self, error: &UpstreamError, mut exchange: Exchange) -> Response<Download> {
        if error.kind() == Failure::Address {
            return refuse(&Blocked::address(self.permit.host()), exchange);
        }
        if let Some(fault) = self.fault.get() {
            return give_up(unchunked(fault), exchange);
        }
        if self.client.framing().body_is_malformed() {
            return give_up(malformed(), exchange);
        }
        exchange.failed(error.to_string());
        tell(deny::failed(exchange.audience(), error), exchange)
    }
}

/// What the client gets when its request was not sent, or its answer cannot be passed on.
fn give_up(unprepared: Unprepared, mut exchange: Exchange) -> Response<Download> {
    match unprepared {
        Unprepared::Refused(denial) => refuse(&denial, exchange),
        Unprepared::Failed(unsent) => {
            let page = deny::unsent(exchange.audience(), &unsent);
            exchange.failed(unsent.record);
            tell(page, exchange)
        }
    }
}
