//! Hosts behind which a server that we did not write does the work, over plain HTTP on loopback.

use std::io;
use std::net::SocketAddr;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use super::routes::{Body, text};

/// A server behind a host of the world.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Backend {
    /// Where it listens.
    pub address: SocketAddr,
    /// The session token that each request must carry, in its header or its query. The server
    /// itself does not look at it.
    pub session_token: Option<String>,
}

const TOKEN: &str = "x-amz-security-token";

/// Passes the request on as it came: same target, same `Host`, same headers, same body.
pub(super) async fn forward(
    backend: Backend,
    host: &str,
    mut request: Request<Incoming>,
) -> io::Result<Response<Body>> {
    if tokens(&request) != backend.session_token.into_iter().collect::<Vec<_>>() {
        let mut response = text("<Error><Code>InvalidToken</Code></Error>");
        *response.status_mut() = StatusCode::FORBIDDEN;
        return Ok(response);
    }
    let target = request.uri().path_and_query().cloned();
    *request.uri_mut() = target.map_or_else(Uri::default, Uri::from);
    *request.version_mut() = Version::HTTP_11;
    if !request.headers().contains_key(HOST) {
        let host = HeaderValue::try_from(host).map_err(io::Error::other)?;
        request.headers_mut().insert(HOST, host);
    }
    let stream = TcpStream::connect(backend.address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
}

/// Every session token that the request carries.
fn tokens(request: &Request<Incoming>) -> Vec<String> {
    let query = request.uri().query().unwrap_or_default();
    let parameters = query.split('&').filter_map(|pair| pair.split_once('='));
    let in_query = parameters.filter(|(name, _)| name.eq_ignore_ascii_case(TOKEN));
    from_headers(request.headers()).chain(in_query.map(|(_, value)| decoded(value))).collect()
}

fn from_headers(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let values = headers.get_all(TOKEN).into_iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Without its percent encoding.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape = after.get(..2).filter(|_| *first == b'%');
        let number = escape.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(number.unwrap_or(*first));
        rest = after.get(if number.is_some() { 2 } else { 0 }..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_undone() {
        for (encoded, plain) in [("a%2Bb%3d", "a+b="), ("100%", "100%"), ("%zz+", "%zz+"), ("", "")] {
            assert_eq!(decoded(encoded), plain);
        }
    }
}
