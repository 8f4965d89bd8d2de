//! The few calls that the Docker-compatible API lacks, over the same socket. The only user of
//! hyper.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::error::{Cause, EngineError, json_place, printable};

/// The oldest version of podman's own API; every podman since 4.0 serves it.
const API: &str = "/v4.0.0/libpod";

/// Maximum size of an answer, far above any legitimate one.
const LARGEST_ANSWER: usize = 32 * 1024 * 1024;
/// Maximum length of a line, in answers that are read by line.
const LONGEST_LINE: usize = 1024 * 1024;

/// Podman's own API on a unix socket. Each call has a connection of its own.
#[derive(Debug, Clone)]
pub(crate) struct Libpod {
    socket: PathBuf,
}

/// An answer of any status. It has no `Debug`: an inspection contains variables with secrets.
pub(crate) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// A call. It has no `Debug`: the body that creates a container contains variables with secrets.
pub(crate) struct Call<'a> {
    /// For errors: the operation and its object.
    pub(crate) operation: &'static str,
    pub(crate) object: &'a str,
    pub(crate) method: Method,
    /// Below the API's root, with the query.
    pub(crate) path: String,
    pub(crate) body: Option<serde_json::Value>,
    /// `None` for calls that end when a container does.
    pub(crate) deadline: Option<Duration>,
}

impl Libpod {
    pub(crate) fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The answer to a ping; its headers describe the engine.
    pub(crate) async fn ping(&self, deadline: Duration) -> Result<HeaderMap, EngineError> {
        let object = self.socket.display().to_string();
        let call = Call {
            operation: "reach the engine at",
            object: &object,
            method: Method::GET,
            path: "/_ping".to_owned(),
            body: None,
            deadline: Some(deadline),
        };
        Ok(self.exchange(&call, "/_ping").await?.headers)
    }

    /// Makes a call and reads its answer. A status other than success is an error.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Bytes, EngineError> {
        let target = format!("{API}{}", call.path);
        Ok(self.exchange(&call, &target).await?.body)
    }

    /// The same, for an answer in JSON.
    pub(crate) async fn json<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, EngineError> {
        let (operation, object) = (call.operation, call.object.to_owned());
        let body = self.call(call).await?;
        serde_json::from_slice(&body)
            .map_err(|error| EngineError::new(operation, object, Cause::Answer(json_place(&error))))
    }

    /// The head of an answer: success or not found. Any other status is an error.
    pub(crate) async fn head(&self, call: Call<'_>) -> Result<(StatusCode, HeaderMap), EngineError> {
        let target = format!("{API}{}", call.path);
        let answer = self.answer(&call, &target).await;
        answer
            .and_then(|answer| match answer.status {
                StatusCode::NOT_FOUND => Ok(answer),
                _ => success(answer),
            })
            .map(|answer| (answer.status, answer.headers))
            .map_err(|cause| EngineError::new(call.operation, call.object, cause))
    }

    async fn exchange(&self, call: &Call<'_>, target: &str) -> Result<Answer, EngineError> {
        let answer = self.answer(call, target).await;
        answer.and_then(success).map_err(|cause| EngineError::new(call.operation, call.object, cause))
    }

    async fn answer(&self, call: &Call<'_>, target: &str) -> Result<Answer, Cause> {
        let exchange = self.send(call, target);
        match call.deadline {
            Some(deadline) => {
                tokio::time::timeout(deadline, exchange).await.unwrap_or(Err(Cause::Deadline(deadline)))
            }
            None => exchange.await,
        }
    }

    /// Sends `archive` to `target`, which may be outside the API's root, and passes on each line of
    /// the answer as it arrives.
    pub(crate) async fn stream(
        &self,
        call: Call<'_>,
        target: &str,
        archive: Bytes,
        on_line: &mut (dyn FnMut(&[u8]) -> Result<(), Cause> + Send),
    ) -> Result<(), EngineError> {
        let exchange = async {
            let request = request(&call.method, target, "application/x-tar", archive)?;
            self.exchange_on(request, |response| read_lines(response, on_line)).await
        };
        let streamed = match call.deadline {
            Some(deadline) => {
                tokio::time::timeout(deadline, exchange).await.unwrap_or(Err(Cause::Deadline(deadline)))
            }
            None => exchange.await,
        };
        streamed.map_err(|cause| EngineError::new(call.operation, call.object, cause))
    }

    /// Makes a call that turns the connection into the streams of a process.
    pub(crate) async fn upgrade(&self, call: Call<'_>) -> Result<TokioIo<Upgraded>, EngineError> {
        let target = format!("{API}{}", call.path);
        let upgraded = async {
            let body = call.body.as_ref().map(|body| Bytes::from(body.to_string())).unwrap_or_default();
            let mut request = request(&call.method, &target, "application/json", body)?;
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            request.headers_mut().insert(UPGRADE, HeaderValue::from_static("tcp"));
            let stream = UnixStream::connect(&self.socket)
                .await
                .map_err(|error| Cause::Unreachable(Box::new(error)))?;
            let hung_up = |error: hyper::Error| Cause::HungUp(Box::new(error));
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(hung_up)?;
            // The task ends with the answer, or when `sender` is dropped.
            tokio::spawn(connection.with_upgrades());
            let response = sender.send_request(request).await.map_err(unreadable)?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                success(whole(response).await?)?;
                return Err(Cause::Answer("it does not hand the connection over".to_owned()));
            }
            Ok(TokioIo::new(hyper::upgrade::on(response).await.map_err(hung_up)?))
        };
        let upgraded = match call.deadline {
            Some(deadline) => {
                tokio::time::timeout(deadline, upgraded).await.unwrap_or(Err(Cause::Deadline(deadline)))
            }
            None => upgraded.await,
        };
        upgraded.map_err(|cause| EngineError::new(call.operation, call.object, cause))
    }

    async fn send(&self, call: &Call<'_>, target: &str) -> Result<Answer, Cause> {
        let body = call.body.as_ref().map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = request(&call.method, target, "application/json", body)?;
        self.exchange_on(request, whole).await
    }

    /// Sends `request` on its own connection and passes the answer to `read`.
    async fn exchange_on<T, F>(
        &self,
        request: Request<Full<Bytes>>,
        read: impl FnOnce(Response<Incoming>) -> F,
    ) -> Result<T, Cause>
    where
        F: Future<Output = Result<T, Cause>>,
    {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| Cause::Unreachable(Box::new(error)))?;
        let hung_up = |error: hyper::Error| Cause::HungUp(Box::new(error));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(hung_up)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(unreadable)?;
            read(response).await
        };
        // The connection is driven here and not by a separate task, so dropping this future closes
        // it.
        tokio::pin!(exchange, connection);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            _ = &mut connection => exchange.await,
        }
    }
}

fn request(
    method: &Method,
    target: &str,
    content_type: &str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Cause> {
    Request::builder()
        .method(method)
        .uri(target)
        .header(http::header::HOST, "engine")
        .header(http::header::CONTENT_TYPE, content_type)
        .body(Full::new(body))
        .map_err(|error| Cause::Answer(format!("no request can be made: {error}")))
}

async fn whole(response: Response<Incoming>) -> Result<Answer, Cause> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(broken_body)?.to_bytes();
    Ok(Answer { status: head.status, headers: head.headers, body })
}

async fn read_lines(
    response: Response<Incoming>,
    on_line: &mut (dyn FnMut(&[u8]) -> Result<(), Cause> + Send),
) -> Result<(), Cause> {
    if !response.status().is_success() {
        return success(whole(response).await?).map(drop);
    }
    let mut body = response.into_body();
    let mut begun = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Cause::HungUp(Box::new(error)))?;
        let mut rest: &[u8] = frame.data_ref().map_or(&[], |data| data);
        while let Some((line, after)) =
            rest.iter().position(|byte| *byte == b'\n').and_then(|end| rest.split_at_checked(end + 1))
        {
            begun.extend_from_slice(line);
            on_line(&begun)?;
            begun.clear();
            rest = after;
        }
        begun.extend_from_slice(rest);
        if begun.len() > LONGEST_LINE {
            return Err(Cause::Answer(format!("a line of it is longer than {LONGEST_LINE} bytes")));
        }
    }
    if begun.is_empty() { Ok(()) } else { on_line(&begun) }
}

/// An unparsable answer is invalid; a truncated one means that the engine hung up.
fn unreadable(error: hyper::Error) -> Cause {
    if error.is_parse() { Cause::Answer(format!("no HTTP: {error}")) } else { Cause::HungUp(Box::new(error)) }
}

fn broken_body(error: Box<dyn std::error::Error + Send + Sync>) -> Cause {
    if error.is::<http_body_util::LengthLimitError>() {
        return Cause::Answer(format!("it is longer than {LARGEST_ANSWER} bytes"));
    }
    Cause::HungUp(error)
}

/// Podman's answer to a failed call.
#[derive(serde::Deserialize)]
struct Failure {
    message: String,
}

fn success(answer: Answer) -> Result<Answer, Cause> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let message = match serde_json::from_slice::<Failure>(&answer.body) {
        Ok(failure) => printable(&failure.message),
        Err(_) => printable(&String::from_utf8_lossy(&answer.body)),
    };
    Err(Cause::Status { status: answer.status.as_u16(), message })
}

/// Escapes `text` for a path segment or a query value.
pub(crate) fn escape(text: &str) -> String {
    let piece = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_name_cannot_change_the_path() {
        assert_eq!(escape("a-b_c.d~1"), "a-b_c.d~1");
        assert_eq!(escape("../x?a=b&c#d e/é"), "..%2Fx%3Fa%3Db%26c%23d%20e%2F%C3%A9");
    }
}
