//! One request: framing, identity, gate, and then the upstream or a refusal.

use std::convert::Infallible;
use std::sync::Arc;

use allowlist::{Authority, Form, Reason, Scheme};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use sandbox_proxy_protocol::{BlockReason, RequestRecord};
use tracing::Instrument as _;

use super::answer::Answered;
use super::body::Download;
use super::client::Client;
use super::cost::charge;
use super::deny;
use super::exchange::{Asked, Exchange};
use super::framing::Note;
use super::head::{HeadError, RefusedHead};
use super::hold::hold;
use super::identity::{identify, origin_form};
use super::inspect::decide_by_body;
use super::outbound::{headers_to_forward, prepare};
use super::refusal::{give_up, refuse, turn_away};
use crate::fields::only;
use crate::headers::asks_for_websocket;
use crate::policy::{Admission, Blocked, Permit};
use crate::upload::{DrainedBody, RequestBody};

/// Answers one request of `client`; `note` holds the part of its head that hyper did not get.
pub(super) async fn answer(
    client: Arc<Client>,
    request: Request<Incoming>,
    note: Option<Note>,
) -> Result<Response<Download>, Infallible> {
    let http1 = request.version() != Version::HTTP_2;
    let mut response = Box::pin(handle(&client, request, note)).await;
    if http1 {
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            client.framing.answered();
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
    let span = asked.span(&client.span);
    decide(client, parts, body, asked, refused, raw_target).instrument(span).await
}

async fn decide(
    client: &Arc<Client>,
    parts: Parts,
    body: Incoming,
    asked: Asked,
    refused: Option<RefusedHead>,
    raw_target: Option<Vec<u8>>,
) -> Response<Download> {
    let http2 = parts.version == Version::HTTP_2;
    let Ok(permit) = Arc::clone(&client.shared.requests).try_acquire_owned() else {
        client.shared.refused_requests.add();
        return turn_away(client, asked, http2, "too many requests are in progress");
    };
    let Ok(slot) = client.shared.context.recorder.reserve().await else {
        return turn_away(client, asked, http2, "requests cannot be recorded");
    };
    let mut exchange = Exchange::begin(asked, slot, Some(permit), client.begin());
    let judged = match &refused {
        Some(head) => Err(head_denial(head.error)),
        None => judge(client, &parts, raw_target.as_deref()),
    };
    let judged = match judged {
        Ok(Admission::Unruled(unruled)) => Box::pin(hold(client, unruled, &mut exchange)).await,
        judged => judged,
    };
    let decided = match judged {
        Ok(Admission::Permit(permit)) => Ok((permit, RequestBody::unread(body))),
        Ok(Admission::Pending(pending)) => {
            // Boxed, so that other requests need no memory for it.
            let decided = Box::pin(decide_by_body(client, *pending, &parts, body)).await;
            decided.map(|(permit, body, removed)| {
                exchange.removed(removed);
                (permit, body)
            })
        }
        Ok(Admission::Unruled(unruled)) => {
            DrainedBody::for_request(&parts.headers).drain(body);
            Err(unruled.denial().clone())
        }
        Err(denial) => {
            if refused.is_none() {
                DrainedBody::for_request(&parts.headers).drain(body);
            }
            Err(denial)
        }
    };
    match decided {
        Ok((permit, body)) => pass(client, permit, parts, body, exchange).await,
        Err(denial) => refuse(&denial, exchange),
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
            (None, None) => client.server_name.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        let target = String::from_utf8_lossy(&origin_form(parts, raw_target)).into_owned();
        (parts.method.as_str().to_owned(), host, target)
    };
    let host = canonical(host, client.scheme);
    Asked {
        record: RequestRecord::asked(method, client.scheme, host, target),
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

fn judge(client: &Client, parts: &Parts, raw_target: Option<&[u8]>) -> Result<Admission, Blocked> {
    if parts.headers.len() > client.limits().headers {
        return Err(head_denial(HeadError::TooManyHeaders));
    }
    if parts.version == Version::HTTP_2 {
        check_http2(parts, client.limits().head_bytes)?;
    }
    let request = identify(parts, client.scheme, client.port, client.server_name.as_ref(), raw_target)?;
    let request = request.with_form(form(parts));
    match client.service(request.host())? {
        Some(_) => client.shared.gate.admit_to_service(request),
        None => client.shared.gate.admit(request),
    }
}

fn form(parts: &Parts) -> Form {
    if parts.method == http::Method::GET && asks_for_websocket(&parts.headers) {
        return Form::WebSocket;
    }
    Form::of(parts.headers.get_all(CONTENT_TYPE).iter().map(http::HeaderValue::as_bytes))
}

/// The checks of the reader of HTTP/1 heads that can also fail in HTTP/2.
fn check_http2(parts: &Parts, max_bytes: usize) -> Result<(), Blocked> {
    // As RFC 9113 counts the size of a header list.
    let lines = parts.headers.iter();
    let bytes: usize = lines.map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
    if bytes > max_bytes {
        return Err(head_denial(HeadError::TooLarge));
    }
    if parts.headers.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(head_denial(HeadError::Malformed("the request has more than one content-length")));
    }
    Ok(())
}

fn head_denial(error: HeadError) -> Blocked {
    let reason = match error {
        HeadError::TooLarge | HeadError::TooManyHeaders => BlockReason::HeadTooLarge,
        HeadError::Late => BlockReason::Timeout,
        HeadError::Target => Reason::Path.into(),
        HeadError::Malformed(_) => BlockReason::Framing,
    };
    Blocked::new(reason, error.to_string())
}

/// Forwards a permitted request. Its cost is charged before any of it is sent.
async fn pass(
    client: &Arc<Client>,
    permit: Permit,
    mut parts: Parts,
    body: RequestBody,
    mut exchange: Exchange,
) -> Response<Download> {
    let websocket = parts.extensions.remove::<OnUpgrade>().filter(|_| {
        let bodiless = body.content.is_empty();
        asks_for_websocket(&parts.headers) && parts.method == http::Method::GET && bodiless
    });
    let forwarded = headers_to_forward(client, &permit, &parts, &body.content, websocket.is_some());
    let charged = forwarded.and_then(|headers| {
        exchange.allowed(&permit);
        charge(client, &permit, &mut exchange, websocket.is_some())?;
        Ok(headers)
    });
    let headers = match charged {
        Ok(headers) => headers,
        Err(denial) => {
            body.content.drain(DrainedBody::for_request(&parts.headers));
            return refuse(&denial, exchange);
        }
    };
    exchange.announce(&client.shared.context.recorder);
    let prepared = match prepare(client, &permit, parts, headers, body, &mut exchange).await {
        Ok(prepared) => prepared,
        Err(unprepared) => return give_up(unprepared, exchange),
    };
    let answered = Answered {
        client,
        permit: &permit,
        method: prepared.outgoing.method().clone(),
        needles: prepared.needles,
        error: prepared.error,
        proven: prepared.proven,
    };
    match websocket {
        Some(websocket) => answered.open(prepared.outgoing, prepared.upload, websocket, exchange).await,
        None => answered.forward(prepared.outgoing, prepared.upload, exchange).await,
    }
}
