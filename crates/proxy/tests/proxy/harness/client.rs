//! Clients: raw bytes, and HTTP/1 and HTTP/2 over TLS.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Body, Proxy, TIMEOUT};

/// An empty body.
pub(crate) fn empty() -> Body {
    Empty::new().boxed_unsync()
}

/// A body of one piece.
pub(crate) fn body(text: &'static str) -> Body {
    Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync()
}

/// A response that was read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Answer {
    /// Reads all of `response`.
    pub(crate) async fn read(response: Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        let collected =
            timeout(TIMEOUT, body.collect()).await.expect("the body ends").expect("the body is whole");
        let trailers = collected.trailers().cloned();
        let body = String::from_utf8_lossy(&collected.to_bytes()).into_owned();
        Self { status: parts.status, headers: parts.headers, body, trailers }
    }

    /// The reason of a refusal.
    pub(crate) fn reason(&self) -> &str {
        self.headers.get("x-sandbox-blocked").map_or("", |reason| reason.to_str().unwrap())
    }
}

/// The bytes that came over a raw connection.
#[derive(Debug)]
pub(crate) struct RawAnswer(pub(crate) String);

impl RawAnswer {
    /// The status of the first response; 0 if there is none.
    pub(crate) fn status(&self) -> u16 {
        self.0.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The number of responses.
    pub(crate) fn count(&self) -> usize {
        self.0.matches("HTTP/1.1 ").count()
    }
}

/// Sends bytes over a new connection and reads until the proxy closes it.
pub(crate) async fn raw(proxy: &Proxy, bytes: &[u8]) -> RawAnswer {
    exchange(TcpStream::connect(proxy.http()).await.unwrap(), bytes).await
}

/// Like [`raw`], over TLS.
pub(crate) async fn raw_tls(proxy: &Proxy, server_name: &str, bytes: &[u8]) -> RawAnswer {
    exchange(proxy.tls(server_name, &["http/1.1"]).await.unwrap(), bytes).await
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, bytes: &[u8]) -> RawAnswer {
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
    let mut answer = Vec::new();
    // A reset after the response counts as its end.
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.expect("the proxy closes the connection");
    RawAnswer(String::from_utf8_lossy(&answer).into_owned())
}

impl Proxy {
    /// Opens a TLS connection to the proxy, for `server_name`.
    pub(crate) async fn tls(
        &self,
        server_name: &str,
        alpn: &[&str],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let connector = TlsConnector::from(self.pki.client(alpn));
        let name = ServerName::try_from(server_name.to_owned()).unwrap();
        connector.connect(name, TcpStream::connect(self.https()).await?).await
    }

    /// Opens an HTTP/1 connection over TLS.
    pub(crate) async fn http1(&self, server_name: &str) -> http1::SendRequest<Body> {
        let stream = self.tls(server_name, &["http/1.1"]).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender
    }

    /// Opens an HTTP/2 connection over TLS.
    pub(crate) async fn http2(&self, server_name: &str) -> http2::SendRequest<Body> {
        let stream = self.tls(server_name, &["h2"]).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Sends one request over a new HTTP/1 connection.
    pub(crate) async fn ask1(&self, request: Request<Body>) -> Answer {
        let mut sender = self.http1(&host(&request)).await;
        answer(sender.send_request(request)).await
    }

    /// Sends one request over a new HTTP/2 connection.
    pub(crate) async fn ask2(&self, request: Request<Body>) -> Answer {
        let mut sender = self.http2(&host(&request)).await;
        answer(sender.send_request(request)).await
    }
}

async fn answer(response: impl Future<Output = hyper::Result<Response<Incoming>>>) -> Answer {
    let response = timeout(TIMEOUT, response).await.expect("a response arrives");
    Answer::read(response.unwrap()).await
}

/// A request without a body.
pub(crate) fn get(uri: impl TryInto<Uri, Error: Into<http::Error>>) -> Request<Body> {
    Request::get(uri).body(empty()).unwrap()
}

fn host(request: &Request<Body>) -> String {
    let header = request.headers().get("host").map(|host| host.to_str().unwrap());
    request.uri().host().or(header).expect("the request names a host").to_owned()
}
