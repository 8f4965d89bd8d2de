//! Token endpoints, over HTTPS.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Uri};
use zeroize::Zeroizing;

use crate::{Answer, Unanswered};

/// Time limit of an exchange, from the name's lookup to the last byte. A lock of the vendor becomes
/// stale only later.
const TIME: Duration = Duration::from_secs(30);

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
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        let has_user = uri.authority().is_none_or(|authority| authority.as_str().contains('@'));
        let is_good = has_host && !has_user && sandbox_https::is_confidential(&uri);
        is_good.then_some(Self(uri)).ok_or(InvalidTokenUrl)
    }
}

impl fmt::Display for TokenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
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
        let json = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, json.clone()), (ACCEPT, json)]);
        if let Some(bearer) = bearer {
            let bearer = HeaderValue::from_str(&format!("Bearer {bearer}"));
            let mut bearer = bearer.map_err(|_| "the token is not a valid header")?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let answered = sandbox_https::post(&self.0, headers, Bytes::copy_from_slice(body), TIME).await;
        answered.map(|(status, body)| (status.as_u16(), body)).map_err(|error| error.to_string())
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
    async fn request_is_sent_and_its_answer_read() {
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
        match asked(of("302 Found", "")).await.0 {
            Err(Unanswered::Unavailable(problem)) => assert!(problem.contains("status 302"), "{problem}"),
            other => panic!("{other:?}"),
        }
        let (refused, _) = asked(of("400 Bad Request", r#"{"error":"invalid_grant"}"#)).await;
        assert_eq!(refused.unwrap_err(), Unanswered::Refused("invalid_grant".to_owned()));
    }
}
