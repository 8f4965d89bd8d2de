//! Upstreams: one that answers by path over HTTP and HTTPS, one that captures requests over plain
//! HTTP, and one that ends HTTP/2 connections.

use std::convert::Infallible;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;

use super::{Body, HTTP, HTTPS, fresh_address, streaming_body};

/// A server on its own address, which answers by path.
pub(crate) struct Upstream {
    pub(crate) address: Ipv4Addr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The heads of requests and the trailers of `/length`, in order of arrival.
    seen: Mutex<Vec<String>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    /// Lets `/events` and `/wait` continue.
    go_on: Notify,
}

impl Upstream {
    /// Answers over plain HTTP, and over TLS with the configuration `tls`.
    pub(crate) async fn start(tls: Arc<ServerConfig>) -> Self {
        let address = fresh_address();
        let shared = Arc::new(Shared::default());
        let plain = TcpListener::bind(SocketAddr::new(address.into(), HTTP)).await.unwrap();
        let encrypted = TcpListener::bind(SocketAddr::new(address.into(), HTTPS)).await.unwrap();
        let plain_shared = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = plain.accept().await {
                tokio::spawn(serve(stream, false, Arc::clone(&plain_shared)));
            }
        });
        let acceptor = TlsAcceptor::from(tls);
        let tls_shared = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = encrypted.accept().await {
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&tls_shared));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                        serve(stream, http2, shared).await;
                    }
                });
            }
        });
        Self { address, shared }
    }

    /// The entries since the last call.
    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.seen.lock().unwrap())
    }

    /// Lets one waiting response continue.
    pub(crate) fn go_on(&self) {
        self.shared.go_on.notify_one();
    }

    /// The number of open connections.
    pub(crate) fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    http2: bool,
    shared: Arc<Shared>,
) {
    shared.connections.fetch_add(1, Ordering::SeqCst);
    shared.open.fetch_add(1, Ordering::SeqCst);
    let counted = Arc::clone(&shared);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(request, &shared).await) }
    });
    if http2 {
        let _ =
            http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
    } else {
        let _ = http1::Builder::new()
            .max_headers(256)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
    }
    counted.open.fetch_sub(1, Ordering::SeqCst);
}

async fn answer(mut request: Request<Incoming>, shared: &Arc<Shared>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let query: usize = request.uri().query().and_then(|query| query.parse().ok()).unwrap_or(0);
    let mut dump = format!("{} {} {:?}\n", request.method(), request.uri(), request.version());
    list(&mut dump, request.headers());
    shared.seen.lock().unwrap().push(dump.clone());
    let path = path.trim_end_matches("/git-receive-pack").trim_end_matches("/v1/messages");
    match path.trim_end_matches(".git") {
        "/headers" => text(dump),
        "/echo" => {
            let frames = request.into_body().map_err(|_| unreachable!("the client ends its bodies well"));
            let mut response = Response::new(frames.boxed_unsync());
            response.headers_mut().insert("trailer", HeaderValue::from_static("x-sum"));
            response
        }
        "/length" => {
            let mut length = 0;
            let mut body = request.into_body();
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { break };
                length += frame.data_ref().map_or(0, Bytes::len);
                if let Some(received) = frame.trailers_ref() {
                    let mut dump = "trailers\n".to_owned();
                    list(&mut dump, received);
                    shared.seen.lock().unwrap().push(dump);
                }
            }
            text(length.to_string())
        }
        "/zeros" => Response::new(streaming_body(query)),
        "/events" => Response::new(events(Arc::clone(shared))),
        "/wait" => {
            shared.go_on.notified().await;
            text("at last".to_owned())
        }
        "/trailers" => Response::new(trailers()),
        "/reflect" => reflect(request.headers()),
        "/exotic" => with_header(text("who can read this".to_owned()), "content-encoding", "exotic"),
        "/early" => with_status(text("too large".to_owned()), StatusCode::PAYLOAD_TOO_LARGE),
        "/alternative" => {
            let mut response = text("here".to_owned());
            for (name, value) in [("alt-svc", "h3=\":443\""), ("set-cookie", "a=1"), ("set-cookie", "b=2")] {
                response.headers_mut().append(name, HeaderValue::from_static(value));
            }
            response
        }
        "/socket" => {
            let sent = request.headers().get("authorization").cloned();
            let mut response = socket(&mut request);
            if let Some(sent) = sent {
                response.headers_mut().insert("x-echo", sent);
            }
            response
        }
        "/socket-refused" => with_status(text("no".to_owned()), StatusCode::FORBIDDEN),
        _ if request.method() == http::Method::HEAD => {
            with_header(text(String::new()), "content-length", "5")
        }
        _ => text(format!("hello from {path}")),
    }
}

fn with_header(mut response: Response<Body>, name: &'static str, value: &'static str) -> Response<Body> {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

fn with_status(mut response: Response<Body>, status: StatusCode) -> Response<Body> {
    *response.status_mut() = status;
    response
}

fn list(dump: &mut String, headers: &HeaderMap) {
    for (name, value) in headers {
        writeln!(dump, "{name}: {}", String::from_utf8_lossy(value.as_bytes())).unwrap();
    }
}

fn text(text: String) -> Response<Body> {
    Response::new(Full::new(Bytes::from(text)).boxed_unsync())
}

/// One event at once, the other when the test calls [`Upstream::go_on`].
fn events(shared: Arc<Shared>) -> Body {
    let frames = stream::unfold((0, shared), |(count, shared)| async move {
        match count {
            0 => Some((Ok(Frame::data(Bytes::from_static(b"data: first\n\n"))), (1, shared))),
            1 => {
                shared.go_on.notified().await;
                Some((Ok(Frame::data(Bytes::from_static(b"data: second\n\n"))), (2, shared)))
            }
            _ => None,
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn trailers() -> Body {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Ok(Frame::data(Bytes::from_static(b"message"))), Ok(Frame::trailers(trailers))];
    StreamBody::new(stream::iter(frames)).boxed_unsync()
}

/// A response that repeats the request's `authorization` in every possible place.
fn reflect(headers: &HeaderMap) -> Response<Body> {
    let sent = headers.get("authorization").cloned();
    let sent = sent.unwrap_or_else(|| HeaderValue::from_static("nothing"));
    let mut trailers = HeaderMap::new();
    trailers.insert("x-echo", sent.clone());
    let (first, second) = sent.as_bytes().split_at(sent.len() / 2);
    let frames = [
        Ok(Frame::data(Bytes::copy_from_slice(first))),
        Ok(Frame::data(Bytes::copy_from_slice(second))),
        Ok(Frame::trailers(trailers)),
    ];
    let mut response = Response::new(StreamBody::new(stream::iter(frames)).boxed_unsync());
    let reason = hyper::ext::ReasonPhrase::try_from(sent.as_bytes()).unwrap();
    response.extensions_mut().insert(reason);
    response.headers_mut().insert("trailer", HeaderValue::from_static("x-echo"));
    response.headers_mut().insert("x-echo", sent);
    response
}

fn socket(request: &mut Request<Incoming>) -> Response<Body> {
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            stream.write_all(&buffer[..length]).await.unwrap();
        }
    });
    let mut response = text(String::new());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert("connection", HeaderValue::from_static("upgrade"));
    response.headers_mut().insert("upgrade", HeaderValue::from_static("websocket"));
    response
        .headers_mut()
        .insert("sec-websocket-accept", HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    response
}

/// A plain HTTP upstream: whenever it has read the end of a head, it sends what it has read to the
/// test and `answer` to the client.
pub(crate) async fn plain_capture(answer: &'static str) -> (Ipv4Addr, mpsc::UnboundedReceiver<String>) {
    let address = fresh_address();
    let listener = TcpListener::bind(SocketAddr::new(address.into(), HTTP)).await.unwrap();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    seen.extend_from_slice(&buffer[..length]);
                    if seen.windows(4).any(|end| end == b"\r\n\r\n") {
                        let _ = sender.send(String::from_utf8_lossy(&seen).into_owned());
                        seen.clear();
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                }
            });
        }
    });
    (address, receiver)
}

/// An upstream that speaks HTTP/2 up to the head of a request, and then sends a GOAWAY frame with
/// `debug_data`. If it `answers`, it begins a response before that.
pub(crate) async fn goaway(tls: Arc<ServerConfig>, debug_data: &'static [u8], answers: bool) -> Ipv4Addr {
    let address = fresh_address();
    let listener = TcpListener::bind(SocketAddr::new(address.into(), HTTPS)).await.unwrap();
    let acceptor = TlsAcceptor::from(tls);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = send_goaway(stream, debug_data, answers).await;
                }
            });
        }
    });
    address
}

/// Like [`goaway`], on one connection.
pub(crate) async fn send_goaway(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    debug_data: &[u8],
    answers: bool,
) -> std::io::Result<()> {
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    const END_HEADERS: u8 = 4;
    /// `:status: 200`, from the static table.
    const OK: &[u8] = &[0x88];
    /// The last stream is 0: none was processed. The code is `ENHANCE_YOUR_CALM`.
    const ENHANCE_YOUR_CALM: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 11];
    stream.read_exact(&mut [0; b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()]).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    let asking = loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let [a, b, c, kind, _, stream_id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).await?;
        if kind == HEADERS {
            break u32::from_be_bytes(stream_id);
        }
    };
    if answers {
        stream.write_all(&frame(HEADERS, END_HEADERS, asking, OK)).await?;
    }
    let reason = [ENHANCE_YOUR_CALM, debug_data].concat();
    stream.write_all(&frame(GOAWAY, 0, 0, &reason)).await?;
    // A connection that is closed with unread data may lose what was written.
    stream.shutdown().await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

fn frame(kind: u8, flags: u8, stream_id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream_id.to_be_bytes(), payload].concat()
}
