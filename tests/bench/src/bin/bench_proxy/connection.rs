//! A client's connection to the origin, directly or through the proxy.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures_util::stream;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderName, HeaderValue};

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::process::HOST;

/// The number of headers of a small request, besides the host.
const HEADERS: u32 = 20;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The HTTP version that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// A client's target, the roots that it trusts, and the headers of its small requests.
#[derive(Clone)]
pub(crate) struct Destination {
    address: SocketAddr,
    roots: Arc<RootCertStore>,
    headers: Arc<[(HeaderName, HeaderValue)]>,
}

impl Destination {
    /// Small requests have 20 headers, as a client of an API sends them; one of them is `token`.
    pub(crate) fn new(address: Ipv4Addr, roots_pem: &str, token: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(roots_pem.as_bytes()) {
            roots.add(certificate.context("failed to read a root")?).context("failed to trust a root")?;
        }
        let token = HeaderValue::from_str(&format!("Bearer {token}")).context("no header")?;
        let others = (1..HEADERS).map(|number| {
            let name = HeaderName::from_bytes(format!("x-client-header-{number}").as_bytes());
            Ok((name.context("no header")?, HeaderValue::from_static("a value as long as most of them are")))
        });
        let headers = others.chain([Ok((AUTHORIZATION, token))]).collect::<Result<_>>()?;
        Ok(Self { address: (address, 443).into(), roots: Arc::new(roots), headers })
    }
}

/// An open connection. Clones share it where the protocol can.
pub(crate) struct Connection {
    sender: Sender,
    headers: Arc<[(HeaderName, HeaderValue)]>,
}

enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Connection {
    pub(crate) async fn open(to: &Destination, protocol: Protocol) -> Result<Self> {
        let stream = TcpStream::connect(to.address)
            .await
            .with_context(|| format!("failed to connect to {}", to.address))?;
        stream.set_nodelay(true).context("failed to set TCP_NODELAY")?;
        let name = ServerName::try_from(HOST).context("no server name")?;
        let tls = TlsConnector::from(Arc::new(tls_config(to, protocol)?))
            .connect(name, stream)
            .await
            .with_context(|| format!("no TLS with {}", to.address))?;
        let io = TokioIo::new(tls);
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(io).await.context("no HTTP/1.1")?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let (sender, connection) =
                    http2::handshake(TokioExecutor::new(), io).await.context("no HTTP/2")?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        Ok(Self { sender, headers: Arc::clone(&to.headers) })
    }

    /// Another handle of the same connection; HTTP/2 only.
    pub(crate) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => {
                Some(Self { sender: Sender::Http2(sender.clone()), headers: Arc::clone(&self.headers) })
            }
        }
    }

    /// Requests one small response.
    pub(crate) async fn small(&mut self) -> Result<()> {
        let headers = Arc::clone(&self.headers);
        let response = self.send_with(Method::GET, "/", &headers, Empty::new().boxed_unsync()).await?;
        response.into_body().collect().await.context("the response was cut off")?;
        Ok(())
    }

    /// Downloads `length` bytes.
    pub(crate) async fn download(&mut self, length: u64) -> Result<()> {
        let response =
            self.send(Method::GET, &format!("/bytes/{length}"), Empty::new().boxed_unsync()).await?;
        let mut body = response.into_body();
        let mut received = 0;
        while let Some(frame) = body.frame().await {
            received +=
                frame.context("the response was cut off")?.data_ref().map_or(0, |data| data.len() as u64);
        }
        if received != length {
            bail!("{received} of {length} bytes arrived");
        }
        Ok(())
    }

    /// Uploads `length` bytes.
    pub(crate) async fn upload(&mut self, length: u64) -> Result<()> {
        let response = self.send(Method::POST, "/sink", zeros(length)).await?;
        received(response, length).await
    }

    /// Sends `upload` whole.
    pub(crate) async fn send_upload(&mut self, upload: Upload) -> Result<()> {
        let length = upload.length();
        let named = |(name, value): &(&'static str, String)| {
            Ok((HeaderName::from_static(name), HeaderValue::from_str(value).context("no header")?))
        };
        let mut headers = upload.headers.iter().map(named).collect::<Result<Vec<_>>>()?;
        headers.push((CONTENT_LENGTH, length.into()));
        let response = self.send_with(Method::PUT, "/sink", &headers, upload.body()).await?;
        received(response, length).await
    }

    async fn send(&mut self, method: Method, path: &str, body: Body) -> Result<Response<Incoming>> {
        self.send_with(method, path, &[], body).await
    }

    async fn send_with(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        body: Body,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                let request = request.uri(path).header("host", HOST).body(body).context("no request")?;
                sender.ready().await.context("the connection ended")?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                let request =
                    request.uri(format!("https://{HOST}{path}")).body(body).context("no request")?;
                sender.ready().await.context("the connection ended")?;
                sender.send_request(request).await
            }
        };
        let response = response.context("no response")?;
        if !response.status().is_success() {
            bail!("{path} was answered with {}", response.status());
        }
        Ok(response)
    }
}

/// Checks that the origin received the whole body.
async fn received(response: Response<Incoming>, length: u64) -> Result<()> {
    let received = response.into_body().collect().await.context("the response was cut off")?.to_bytes();
    if received != length.to_string().as_bytes() {
        bail!("{} of {length} bytes arrived", String::from_utf8_lossy(&received));
    }
    Ok(())
}

/// A finite body of equal pieces.
pub(crate) struct Upload {
    pub(crate) pieces: u64,
    pub(crate) piece: Bytes,
    pub(crate) last: Bytes,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Upload {
    /// Length of the whole body in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.pieces * self.piece.len() as u64 + self.last.len() as u64
    }

    fn body(self) -> Body {
        let pieces = stream::unfold(Some(self.pieces), move |left| {
            let next = left.map(|left| match left {
                0 => (Ok(Frame::data(self.last.clone())), None),
                _ => (Ok(Frame::data(self.piece.clone())), Some(left - 1)),
            });
            async move { next }
        });
        StreamBody::new(pieces).boxed_unsync()
    }
}

fn tls_config(to: &Destination, protocol: Protocol) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("no TLS version")?
        .with_root_certificates(Arc::clone(&to.roots))
        .with_no_client_auth();
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(config)
}

fn zeros(length: u64) -> Body {
    const PIECE: Bytes = Bytes::from_static(&[0; 64 * 1024]);
    let pieces = stream::unfold(length, |left| async move {
        let now = left.min(PIECE.len() as u64);
        let piece = PIECE.slice(..usize::try_from(now).unwrap_or_default());
        (now > 0).then(|| (Ok(Frame::data(piece)), left - now))
    });
    StreamBody::new(pieces).boxed_unsync()
}
