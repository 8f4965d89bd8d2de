//! The server: validates requests, and decides who may make them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use allowlist::PushReader;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use crate::backend::{self, Call, RECEIVE_PACK};
use crate::push::Backups;
use crate::{GateError, GateToken, Repository};

/// Requests that git handles at once; a push counts as four.
const AT_ONCE: usize = 8;
const OF_A_PUSH: u32 = 4;

type Body = Either<Full<Bytes>, backend::Body>;

/// Serves repositories to clients that have the token, at `/NAME.git`.
///
/// It accepts only requests of git's smart HTTP. A clone of this value serves the same
/// repositories.
#[derive(Clone, Debug)]
pub struct GateServer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    repositories: BTreeMap<String, PathBuf>,
    token: GateToken,
    room: Arc<Semaphore>,
}

impl GateServer {
    /// Serves `repositories` to clients that show `token`.
    #[must_use]
    pub fn new(repositories: impl IntoIterator<Item = Repository>, token: GateToken) -> Self {
        let paths = repositories
            .into_iter()
            .map(|repository| (repository.name().to_owned(), repository.path().to_owned()));
        let inner = Inner { repositories: paths.collect(), token, room: Arc::new(Semaphore::new(AT_ONCE)) };
        Self { inner: Arc::new(inner) }
    }

    /// Serves one connection until it ends. An error ends the connection, or becomes an answer.
    pub async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = hyper::service::service_fn(move |request| {
            let inner = Arc::clone(&self.inner);
            async move { Ok::<_, Infallible>(inner.respond(request).await) }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the gate broke");
        }
    }
}

/// The reason why git does not answer.
enum Refusal {
    Status(StatusCode, &'static str),
    Failed(GateError),
}

impl From<GateError> for Refusal {
    fn from(error: GateError) -> Self {
        Self::Failed(error)
    }
}

impl Inner {
    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let (status, text) = match self.answer(&head, body).await {
            Ok(response) => return response.map(Either::Right),
            Err(Refusal::Status(status, text)) => (status, text),
            Err(Refusal::Failed(error)) => {
                let causes = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(%error, causes, "the gate failed to answer a request");
                (StatusCode::INTERNAL_SERVER_ERROR, "the sandbox's git server failed")
            }
        };
        let mut response = Response::new(Either::Left(Full::from(format!("{text}\n"))));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/plain; charset=utf-8"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, hyper::header::HeaderValue::from_static("Basic realm=\"gate\""));
        }
        response
    }

    async fn answer(&self, head: &Parts, body: Incoming) -> Result<Response<backend::Body>, Refusal> {
        let (name, service, query) = route(head)
            .ok_or(Refusal::Status(StatusCode::NOT_FOUND, "this is not a request of git's smart HTTP"))?;
        if !self.is_authorized(head) {
            return Err(Refusal::Status(
                StatusCode::UNAUTHORIZED,
                "the token of this execution is missing or wrong",
            ));
        }
        let repository = self
            .repositories
            .get(name)
            .ok_or(Refusal::Status(StatusCode::NOT_FOUND, "there is no such repository here"))?;
        let places = if service == RECEIVE_PACK { OF_A_PUSH } else { 1 };
        let room = Arc::clone(&self.room).acquire_many_owned(places).await;
        let call = Call { repository, service, query, head };
        if service == RECEIVE_PACK {
            return push(&call, body, room).await;
        }
        let running = call.start()?;
        Ok(running.answer(Vec::new(), body, false, async move { drop(room) }).await?)
    }

    fn is_authorized(&self, head: &Parts) -> bool {
        let value = head.headers.get(AUTHORIZATION).map(hyper::header::HeaderValue::as_bytes);
        let basic = value.and_then(|value| {
            let (scheme, encoded) = value.split_at_checked(b"Basic ".len())?;
            scheme.eq_ignore_ascii_case(b"Basic ").then_some(encoded)
        });
        let decoded = basic.and_then(|encoded| BASE64.decode(encoded.trim_ascii()).ok()).unwrap_or_default();
        let password = decoded.splitn(2, |byte| *byte == b':').nth(1);
        password.is_some_and(|password| self.token.is(password))
    }
}

/// The repository's name, the service and its query, if git makes such a request.
fn route(head: &Parts) -> Option<(&str, &'static str, &'static str)> {
    let (name, service) = head.uri.path().strip_prefix('/')?.split_once('/')?;
    let (service, query) = match (&head.method, service, head.uri.query()) {
        (&Method::GET, "info/refs", Some("service=git-upload-pack")) => {
            ("info/refs", "service=git-upload-pack")
        }
        (&Method::GET, "info/refs", Some("service=git-receive-pack")) => {
            ("info/refs", "service=git-receive-pack")
        }
        (&Method::POST, "git-upload-pack", None) => ("git-upload-pack", ""),
        (&Method::POST, RECEIVE_PACK, None) => (RECEIVE_PACK, ""),
        _ => return None,
    };
    Some((name.strip_suffix(".git").unwrap_or(name), service, query))
}

async fn push<T: Send + 'static>(
    call: &Call<'_>,
    mut body: Incoming,
    room: T,
) -> Result<Response<backend::Body>, Refusal> {
    let unreadable =
        Refusal::Status(StatusCode::BAD_REQUEST, "the push cannot be read; push with git itself");
    // Git sends pushes without a content encoding.
    if call.head.headers.contains_key(CONTENT_ENCODING) {
        return Err(unreadable);
    }
    let mut reader = PushReader::default();
    let mut first = Vec::new();
    let updates = loop {
        let (data, ended) = match body.frame().await {
            Some(Ok(frame)) => (frame.into_data().unwrap_or_default(), false),
            Some(Err(_)) => return Err(unreadable),
            None => (Bytes::new(), true),
        };
        first.extend_from_slice(&data);
        match reader.advance(&first, ended) {
            Ok(Some(updates)) => break updates,
            Ok(None) if !ended => {}
            _ => return Err(unreadable),
        }
    };
    let stale =
        Refusal::Status(StatusCode::CONFLICT, "a ref does not have the old value in the push; fetch first");
    let backups = Backups::make(call.repository, &updates).await?.ok_or(stale)?;
    let running = match call.start() {
        Ok(running) => running,
        Err(error) => {
            backups.settle().await;
            return Err(error.into());
        }
    };
    let settled = async move {
        backups.settle().await;
        drop(room);
    };
    Ok(running.answer(first, body, true, settled).await?)
}
