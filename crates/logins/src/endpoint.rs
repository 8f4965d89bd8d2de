//! Token endpoints, over HTTPS.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::{Answer, Unanswered};

/// Time limit of an exchange, from the name's lookup to the last byte. A lock of the vendor becomes
/// stale only later.
const TIME: Duration = Duration::from_secs(30);
/// Maximum size of an answer in bytes.
const LONGEST: usize = 64 << 10;

/// Exchanges a refresh token for new tokens.
pub trait Endpoint: Clone + Send + Sync + 'static {
    /// Sends `request`, once.
    fn ask(&self, request: TokenRequest) -> impl Future<Output = Result<Answer, Unanswered>> + Send;

    /// Its address, for messages.
    fn name(&self) -> String;
}

/// The body of a request, in JSON. `Debug` does not show it.
pub struct TokenRequest(Zeroizing<Vec<u8>>);

impl TokenRequest {
    pub(crate) fn new(body: Vec<u8>) -> Self {
        Self(Zeroizing::new(body))
    }

    /// The JSON.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for TokenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenRequest(redacted)")
    }
}

/// An address to which refresh tokens and proofs of an app may be sent: `https`, or `http` on this
/// machine's loopback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenUrl(Uri);

/// An address to which tokens must not be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not an address for tokens: write `https://HOST/PATH`; `http` is for 127.0.0.1 and [::1] only")]
pub struct InvalidTokenUrl;

impl FromStr for TokenUrl {
    type Err = InvalidTokenUrl;

    fn from_str(text: &str) -> Result<Self, InvalidTokenUrl> {
        let uri: Uri = text.parse().map_err(|_| InvalidTokenUrl)?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(InvalidTokenUrl)?;
        let has_user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
        let is_loopback = bare(host).parse().is_ok_and(|address: IpAddr| address.is_loopback());
        match uri.scheme_str() {
            Some("https") if !has_user => Ok(Self(uri)),
            Some("http") if !has_user && is_loopback => Ok(Self(uri)),
            _ => Err(InvalidTokenUrl),
        }
    }
}

impl fmt::Display for TokenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An IPv6 address without its brackets.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The endpoint at an address, verified against public authorities. It follows no redirect.
#[derive(Debug, Clone)]
pub struct HttpsEndpoint {
    url: TokenUrl,
}

impl HttpsEndpoint {
    /// The endpoint at `url`.
    #[must_use]
    pub fn new(url: TokenUrl) -> Self {
        Self { url }
    }

    async fn exchange(&self, request: &TokenRequest) -> Result<Answer, Unanswered> {
        let (status, body) = self.url.post(request.body(), None).await.map_err(Unanswered::Unavailable)?;
        Answer::read(status, &body)
    }
}

impl TokenUrl {
    /// Posts JSON to it, once, authenticated by `bearer`, and returns status and body of the
    /// answer. An error never shows the request.
    pub(crate) async fn post(&self, body: &[u8], bearer: Option<&str>) -> Result<(u16, Bytes), String> {
        let answered = timeout(TIME, self.exchange(body, bearer)).await;
        answered.unwrap_or_else(|_| Err(format!("no answer within {} s", TIME.as_secs())))
    }

    async fn exchange(&self, body: &[u8], bearer: Option<&str>) -> Result<(u16, Bytes), String> {
        let Self(uri) = self;
        let host = bare(uri.host().unwrap_or_default());
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await.map_err(|error| failed("connect", &error))?;
        if !is_tls {
            return self.converse(stream, body, bearer).await;
        }
        let name =
            ServerName::try_from(host.to_owned()).map_err(|error| failed("name the server", &error))?;
        let connected = TlsConnector::from(tls()?).connect(name, stream).await;
        self.converse(connected.map_err(|error| failed("set TLS up", &error))?, body, bearer).await
    }

    async fn converse<S>(&self, stream: S, body: &[u8], bearer: Option<&str>) -> Result<(u16, Bytes), String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self(uri) = self;
        let opened = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = opened.map_err(|error| failed("speak HTTP", &error))?;
        // Ends with this function.
        let mut driving = JoinSet::new();
        driving.spawn(connection);
        let mut request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
            .header(HOST, uri.authority().map_or("", |authority| authority.as_str()))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("sandbox/", env!("CARGO_PKG_VERSION")));
        if let Some(bearer) = bearer {
            request = request.header(AUTHORIZATION, format!("Bearer {bearer}"));
        }
        let request = request
            .body(Full::new(Bytes::copy_from_slice(body)))
            .map_err(|error| failed("make the request", &error))?;
        let response =
            sender.send_request(request).await.map_err(|error| failed("send the request", &error))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        let body = body.map_err(|error| format!("failed to read the answer: {error}"))?;
        Ok((status, body.to_bytes()))
    }
}

impl Endpoint for HttpsEndpoint {
    async fn ask(&self, request: TokenRequest) -> Result<Answer, Unanswered> {
        self.exchange(&request).await
    }

    fn name(&self) -> String {
        self.url.to_string()
    }
}

/// Public authorities only, independent of the project.
fn tls() -> Result<Arc<ClientConfig>, String> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| failed("set TLS up", &error))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn failed(operation: &str, error: &dyn std::error::Error) -> String {
    let mut text = format!("failed to {operation}: {error}");
    if let Some(source) = error.source() {
        text.push_str(": ");
        text.push_str(&source.to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn token_url_is_encrypted_or_on_this_machine() {
        for (text, is_good) in [
            ("https://platform.claude.com/v1/oauth/token", true),
            ("https://a.example:8443/token?x=y", true),
            ("http://127.0.0.1:9/token", true),
            ("http://[::1]:9/", true),
            ("http://a.example/token", false),
            ("http://localhost/token", false),
            ("http://127.0.0.1.a.example/", false),
            ("http://127.0.0.1@a.example/", false),
            ("https://user:secret@a.example/", false),
            ("ftp://127.0.0.1/", false),
            ("//a.example/", false),
            ("/token", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<TokenUrl>().is_ok(), is_good, "{text}");
        }
    }

    /// The result of asking a server that always gives this answer, and the request.
    async fn asked(answer: String) -> (Result<Answer, Unanswered>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/token?x=y", listener.local_addr().unwrap());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            // The client may close the connection before the end.
            let _ = stream.write_all(answer.as_bytes()).await;
            String::from_utf8_lossy(&request[..length]).into_owned()
        };
        let endpoint = HttpsEndpoint::new(url.parse().unwrap());
        tokio::join!(endpoint.ask(TokenRequest::new(b"{\"a\":1}".to_vec())), server)
    }

    #[tokio::test]
    async fn request_is_sent_once_and_its_answer_is_bounded() {
        let of = |status: &str, body: &str| {
            format!(
                "HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
        };
        let (answer, request) = asked(of("200 OK", r#"{"access_token":"x"}"#)).await;
        assert_eq!(answer.unwrap().access_token.expose(), "x");
        assert!(
            request.starts_with("POST /token?x=y HTTP/1.1\r\n") && request.ends_with("{\"a\":1}"),
            "{request}"
        );
        let long = format!(r#"{{"access_token":"{}"}}"#, "x".repeat(LONGEST));
        for (answer, expected) in [
            (of("302 Found", ""), "status 302"),
            (of("200 OK", &long), "failed to read the answer"),
            ("nonsense\r\n\r\n".to_owned(), "failed to send the request"),
        ] {
            match asked(answer).await.0 {
                Err(Unanswered::Unavailable(problem)) => assert!(problem.contains(expected), "{problem}"),
                other => panic!("{other:?}"),
            }
        }
        let (refused, _) = asked(of("400 Bad Request", r#"{"error":"invalid_grant"}"#)).await;
        assert_eq!(refused.unwrap_err(), Unanswered::Refused("invalid_grant".to_owned()));
    }
}
