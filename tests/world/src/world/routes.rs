//! What the origin answers, by host and path.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use crate::messages_api::{ApiRequest, ApiResponse, Script, Step};
use crate::other_apis;

use super::backend::{self, Backend};
use super::lock::Lock;
use super::{apt, cargo, git, go, mirror, npm, python, websocket};

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Of each host only the first requests are remembered: a benchmark makes more of them than fit
/// into memory.
const REMEMBERED: usize = 10_000;

/// A request that reached the origin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// Its headers in order.
    pub headers: Vec<(String, String)>,
}

/// What the origin remembers.
#[derive(Debug)]
pub(super) struct State {
    script: Script,
    /// By host. Locked for single operations.
    seen: Mutex<HashMap<String, Vec<Seen>>>,
    /// The server-sent-event streams that may go on. Locked for single operations.
    gates: Mutex<HashMap<String, watch::Sender<bool>>>,
    /// By host: what opens it. Locked for single operations.
    locks: Mutex<HashMap<String, Lock>>,
    /// By domain: who answers for it and for all names below. Locked for single operations.
    backends: Mutex<HashMap<String, Backend>>,
}

impl State {
    pub(super) fn new(script: Script) -> Self {
        Self {
            script,
            seen: Mutex::default(),
            gates: Mutex::default(),
            locks: Mutex::default(),
            backends: Mutex::default(),
        }
    }

    pub(super) fn seen(&self, host: &str) -> Vec<Seen> {
        lock(&self.seen).get(host).cloned().unwrap_or_default()
    }

    pub(super) fn forget(&self, host: &str) {
        lock(&self.seen).remove(host);
    }

    pub(super) fn release(&self, name: &str) {
        lock(&self.gates).entry(name.to_owned()).or_default().send_replace(true);
    }

    pub(super) fn lock(&self, host: &str, lock: Lock) {
        self::lock(&self.locks).insert(host.to_owned(), lock);
    }

    pub(super) fn delegate(&self, domain: &str, backend: Backend) {
        lock(&self.backends).insert(domain.to_owned(), backend);
    }

    fn backend(&self, host: &str) -> Option<Backend> {
        let backends = lock(&self.backends);
        let found = backends.iter().find(|(domain, _)| is_within(host, domain));
        found.map(|(_, backend)| backend.clone())
    }

    fn gate(&self, name: &str) -> watch::Receiver<bool> {
        lock(&self.gates).entry(name.to_owned()).or_default().subscribe()
    }

    fn remember(&self, host: &str, request: &Request<Incoming>) {
        if lock(&self.seen).get(host).is_some_and(|seen| seen.len() >= REMEMBERED) {
            return;
        }
        let seen = Seen {
            method: request.method().to_string(),
            target: target(request),
            version: format!("{:?}", request.version()),
            headers: headers(request.headers()),
        };
        lock(&self.seen).entry(host.to_owned()).or_default().push(seen);
    }
}

/// Whether `host` is `domain` or below it.
fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn target(request: &Request<Incoming>) -> String {
    request.uri().path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string)
}

fn headers(map: &HeaderMap) -> Vec<(String, String)> {
    map.iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

fn host(request: &Request<Incoming>) -> String {
    let authority = request.uri().authority().map(ToString::to_string);
    let header = || request.headers().get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    authority.or_else(header).unwrap_or_default()
}

pub(super) async fn answer(state: Arc<State>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let host = host(&request);
    state.remember(&host, &request);
    if let Some(backend) = state.backend(&host) {
        return backend::forward(backend, &host, request).await;
    }
    let lock = lock(&state.locks).get(&host).cloned();
    if let Some(lock) = lock
        && !lock.opens(request.headers())
    {
        return Ok(lock.refusal());
    }
    match host.as_str() {
        "api.anthropic.com" | "api.anthropic.test" | "login.anthropic.test" | "oauth.anthropic.test" => {
            Ok(scripted(state.script.answer(&api_request(request).await?)))
        }
        "api.openai.com" | "generativelanguage.googleapis.com" => {
            Ok(scripted(other_apis::answer(&api_request(request).await?)))
        }
        "git.test" => Ok(git::answer(request.uri().path())),
        host if is_within(host, "git.test") => git::serve(request).await,
        host if is_within(host, "npm.test") => Ok(npm::answer(host, request.uri().path())),
        host if is_within(host, "apt.test") => Ok(apt::answer(request.uri().path())),
        host if is_within(host, "cargo.test") => Ok(cargo::answer(host, request.uri().path())),
        host if is_within(host, "go.test") => Ok(go::answer(request.uri().path())),
        host if is_within(host, "pypi.test") => Ok(python::answer(request.uri().path())),
        _ => general(&state, &host, request).await,
    }
}

async fn general(state: &State, host: &str, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let path = request.uri().path().to_owned();
    let mut parts = path.trim_start_matches('/').splitn(2, '/');
    let (route, argument) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    Ok(match route {
        "echo" => Response::new(echo(request)),
        "headers" => text(&json!(headers(request.headers())).to_string()),
        "bytes" => Response::new(zeros(argument.parse().unwrap_or(0))),
        "sink" => text(&swallow(request).await?.to_string()),
        "sse" => server_sent_events(state.gate(argument)),
        "trailers" => with_trailers(),
        "grpc.Echo" => grpc(request).await?,
        "ws" => websocket::accept(request),
        "redirect" => redirect(argument),
        "mirror" => mirror::answer(argument, request.headers(), |name| state.gate(name)),
        "status" => status(argument),
        _ => text(&format!("hello from {host}\n")),
    })
}

pub(super) fn text(text: &str) -> Response<Body> {
    Response::new(full(text.to_owned()))
}

pub(super) fn full(content: impl Into<Bytes>) -> Body {
    Full::new(content.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn not_found() -> Response<Body> {
    status("404")
}

fn status(code: &str) -> Response<Body> {
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_bytes(code.as_bytes()).unwrap_or(StatusCode::BAD_REQUEST);
    response
}

/// `/redirect/HOST/PATH` sends the client to `https://HOST/PATH`.
fn redirect(to: &str) -> Response<Body> {
    let mut response = status("302");
    if let Ok(location) = HeaderValue::try_from(format!("https://{to}")) {
        response.headers_mut().insert("location", location);
    }
    response
}

/// The request's body, as it comes.
fn echo(request: Request<Incoming>) -> Body {
    request.into_body().map_err(io::Error::other).boxed_unsync()
}

/// So many zeros, in pieces.
fn zeros(count: u64) -> Body {
    const PIECE: Bytes = Bytes::from_static(&[0; 64 * 1024]);
    let pieces = stream::unfold(count, |left| async move {
        let now = left.min(PIECE.len() as u64);
        let piece = PIECE.slice(..usize::try_from(now).unwrap_or_default());
        (now > 0).then(|| (Ok(Frame::data(piece)), left - now))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// Reads the body to its end and reports its length.
async fn swallow(request: Request<Incoming>) -> io::Result<u64> {
    let mut body = request.into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame.map_err(io::Error::other)?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(length)
}

/// One event at once, the second when the test says so.
fn server_sent_events(mut gate: watch::Receiver<bool>) -> Response<Body> {
    let first = stream::iter([Ok(Frame::data(Bytes::from_static(b"data: first\n\n")))]);
    let second = stream::once(async move {
        let _ = gate.wait_for(|open| *open).await;
        Ok(Frame::data(Bytes::from_static(b"data: second\n\n")))
    });
    let mut response = Response::new(StreamBody::new(first.chain(second)).boxed_unsync());
    response.headers_mut().insert("content-type", HeaderValue::from_static("text/event-stream"));
    response
}

fn trailers(name: &'static str, value: &'static str) -> Frame<Bytes> {
    let mut map = HeaderMap::new();
    map.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    Frame::trailers(map)
}

fn with_trailers() -> Response<Body> {
    let frames = [Ok(Frame::data(Bytes::from_static(b"body\n"))), Ok(trailers("x-checksum", "abc"))];
    let mut response = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
    response.headers_mut().insert("trailer", HeaderValue::from_static("x-checksum"));
    response
}

/// A gRPC method that sends its request's message back.
async fn grpc(request: Request<Incoming>) -> io::Result<Response<Body>> {
    let message = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let frames = [Ok(Frame::data(message)), Ok(trailers("grpc-status", "0"))];
    let mut response = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

async fn api_request(request: Request<Incoming>) -> io::Result<ApiRequest> {
    let (method, path) = (request.method().to_string(), target(&request));
    let headers = headers(request.headers());
    let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(ApiRequest { method, path, headers, body })
}

fn scripted(answer: ApiResponse) -> Response<Body> {
    let frames = stream::iter(answer.body).filter_map(|step| async move {
        match step {
            Step::Bytes(bytes) => Some(Ok(Frame::data(bytes))),
            Step::Pause(pause) => {
                tokio::time::sleep(pause).await;
                None
            }
            Step::Abort => Some(Err(io::Error::from(io::ErrorKind::ConnectionAborted))),
        }
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}
