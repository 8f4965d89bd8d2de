//! One request on a connection of its own.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Maximum size of a response's body in bytes.
const LONGEST: usize = 64 << 10;

/// A request that was not answered. It never shows the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PostError(String);

/// Sends `body` to `uri`, once, and returns the status and the body of the response. `Host` and
/// `User-Agent` are added to `headers`.
///
/// # Errors
///
/// If there was no complete response within `limit`, from the lookup of the name to the last byte, or
/// its body is longer than 64 KiB.
pub async fn post(
    uri: &Uri,
    headers: HeaderMap,
    body: Bytes,
    limit: Duration,
) -> Result<(StatusCode, Bytes), PostError> {
    let answered = timeout(limit, exchange(uri, headers, body)).await;
    answered.unwrap_or_else(|_| Err(PostError(format!("no answer within {} s", limit.as_secs_f64()))))
}

/// Whether nobody but this machine and the server can read what is sent to `uri`: it is HTTPS, or on
/// this machine's loopback.
#[must_use]
pub fn is_confidential(uri: &Uri) -> bool {
    let is_loopback = || bare(uri).parse().is_ok_and(|address: IpAddr| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => is_loopback(),
        _ => false,
    }
}

async fn exchange(uri: &Uri, headers: HeaderMap, body: Bytes) -> Result<(StatusCode, Bytes), PostError> {
    let host = bare(uri);
    let is_tls = uri.scheme_str() != Some("http");
    let port = match uri.port_u16() {
        Some(port) => port,
        // A port that is not a number must not become the default one.
        None if uri.authority().is_some_and(|authority| authority.as_str().ends_with(host_of(uri))) => {
            if is_tls {
                443
            } else {
                80
            }
        }
        None => return Err(PostError("the port of its address is not valid".to_owned())),
    };
    let stream = TcpStream::connect((host, port)).await.map_err(failed("connect"))?;
    if !is_tls {
        return converse(stream, uri, headers, body).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(failed("name the server"))?;
    let connected = TlsConnector::from(tls()?).connect(name, stream).await;
    converse(connected.map_err(failed("set TLS up"))?, uri, headers, body).await
}

async fn converse<S>(
    stream: S,
    uri: &Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Bytes), PostError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let opened = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = opened.map_err(failed("speak HTTP"))?;
    // Ends with this function.
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let mut request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
        .body(Full::new(body))
        .map_err(failed("make the request"))?;
    *request.headers_mut() = headers;
    let host = uri.authority().map_or("", |authority| authority.as_str());
    request.headers_mut().insert(HOST, HeaderValue::from_str(host).map_err(failed("make the request"))?);
    let agent = HeaderValue::from_static(concat!("sandbox/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().insert(USER_AGENT, agent);
    let response = sender.send_request(request).await.map_err(failed("send the request"))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body = body.map_err(|error| PostError(format!("failed to read the answer: {error}")))?;
    Ok((status, body.to_bytes()))
}

fn host_of(uri: &Uri) -> &str {
    uri.host().unwrap_or_default()
}

/// The host of `uri`, an IPv6 address without its brackets.
fn bare(uri: &Uri) -> &str {
    host_of(uri).trim_start_matches('[').trim_end_matches(']')
}

/// Public authorities only.
fn tls() -> Result<Arc<ClientConfig>, PostError> {
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(failed("set TLS up"))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn failed<E: Error>(operation: &'static str) -> impl FnOnce(E) -> PostError {
    move |error| {
        let mut text = format!("failed to {operation}: {error}");
        if let Some(source) = error.source() {
            text.push_str(": ");
            text.push_str(&source.to_string());
        }
        PostError(text)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn confidential_uri_is_encrypted_or_on_this_machine() {
        for (text, is_good) in [
            ("https://a.example:8443/token?x=y", true),
            ("http://127.0.0.1:9/token", true),
            ("http://[::1]:9/", true),
            ("http://a.example/token", false),
            ("http://localhost/token", false),
            ("http://127.0.0.1.a.example/", false),
            ("ftp://127.0.0.1/", false),
            ("/token", false),
        ] {
            assert_eq!(is_confidential(&text.parse().unwrap()), is_good, "{text}");
        }
    }

    /// The result of a request to a server that always gives this answer, and the request.
    async fn posted(answer: String) -> (Result<(StatusCode, Bytes), PostError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/token?x=y", listener.local_addr().unwrap()).parse().unwrap();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            // The client may close the connection before the end.
            let _ = stream.write_all(answer.as_bytes()).await;
            String::from_utf8_lossy(&request[..length]).into_owned()
        };
        tokio::join!(post(&uri, HeaderMap::new(), "body".into(), Duration::from_secs(30)), server)
    }

    #[tokio::test]
    async fn request_is_sent_once_and_its_answer_is_bounded() {
        let of = |status: &str, body: &str| {
            format!(
                "HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
        };
        let (answer, request) = posted(of("302 Found", "hello")).await;
        assert_eq!(answer, Ok((StatusCode::FOUND, "hello".into())), "no redirect is followed");
        assert!(
            request.starts_with("POST /token?x=y HTTP/1.1\r\n") && request.ends_with("body"),
            "{request}"
        );
        for (answer, expected) in [
            (of("200 OK", &"x".repeat(LONGEST + 1)), "failed to read the answer"),
            ("nonsense\r\n\r\n".to_owned(), "failed to send the request"),
        ] {
            let problem = posted(answer).await.0.unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[tokio::test]
    async fn port_that_is_not_one_is_refused() {
        for text in ["http://127.0.0.1:99999/", "http://[::1]:99999/"] {
            let uri = text.parse().unwrap();
            let posted = post(&uri, HeaderMap::new(), Bytes::new(), Duration::from_secs(30)).await;
            assert_eq!(posted.unwrap_err().to_string(), "the port of its address is not valid", "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_never_answers_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: Uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let posted = post(&uri, HeaderMap::new(), Bytes::new(), Duration::from_secs(30)).await;
        assert_eq!(posted.unwrap_err().to_string(), "no answer within 30 s");
    }
}
