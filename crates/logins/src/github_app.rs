//! Installation tokens of a GitHub App: created with the App's key, for individual repositories,
//! valid for an hour.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use sandbox_credentials::SecretValue;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::document::wipe;
use crate::{InvalidTokenUrl, TokenUrl};

/// Backdating of a proof: clocks differ.
const BEFORE: Duration = Duration::from_mins(1);
/// Lifetime of a proof from now; GitHub accepts ten minutes at most.
const AFTER: Duration = Duration::from_mins(8);

/// An installation of a GitHub App, and the repositories that its tokens are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubApp {
    app: String,
    repositories: Vec<String>,
    url: TokenUrl,
}

/// The reason for a missing installation token. No message shows the key or a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GitHubAppError {
    /// The key is invalid.
    #[error("the key is not an RSA private key in PEM: download it from the settings of the GitHub App")]
    Key,
    /// GitHub refuses the App's proof or the token.
    #[error("GitHub refused an installation token (status {status}{}): {}", quoted(.message.as_deref()), refusal(*.status))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// GitHub's message, if any.
        message: Option<String>,
    },
    /// There was no answer, or none from GitHub. Another attempt may succeed.
    #[error("failed to get an installation token from {url}: {problem}")]
    Unavailable {
        /// The endpoint.
        url: String,
        /// The problem.
        problem: String,
    },
}

impl GitHubApp {
    /// The installation `installation` of the App with the id or client id `app`. Tokens are for
    /// its `repositories`, named without their owner, and created by the API at `api`, such as
    /// `https://api.github.com`.
    ///
    /// # Errors
    ///
    /// If keys must not be used at `api`: it is neither `https` nor on this machine's loopback.
    pub fn new(
        app: impl Into<String>,
        installation: u64,
        repositories: impl IntoIterator<Item = impl Into<String>>,
        api: &str,
    ) -> Result<Self, InvalidTokenUrl> {
        // Each would absorb the path that is appended.
        if api.contains(['?', '#']) {
            return Err(InvalidTokenUrl);
        }
        let url = format!("{}/app/installations/{installation}/access_tokens", api.trim_end_matches('/'));
        Ok(Self {
            app: app.into(),
            repositories: repositories.into_iter().map(Into::into).collect(),
            url: url.parse()?,
        })
    }

    /// Lifetime of a token.
    pub const LIFETIME: Duration = Duration::from_hours(1);

    /// Creates a token with the App's private key, an RSA key in PEM as provided by GitHub. Sends
    /// one request, with a time limit of 30 s.
    ///
    /// # Errors
    ///
    /// If `key` is invalid, or GitHub returns no token.
    pub async fn token(&self, key: &[u8], now: SystemTime) -> Result<SecretValue, GitHubAppError> {
        let proof = self.proof(&read_key(key)?, now)?;
        let body = json!({ "repositories": self.repositories }).to_string();
        let unavailable = |problem| GitHubAppError::Unavailable { url: self.url.to_string(), problem };
        let (status, bytes) = self.url.post(body.as_bytes(), Some(&proof)).await.map_err(unavailable)?;
        let mut answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text = |name: &str| answer.get(name)?.as_str().filter(|text| !text.is_empty());
        let made = match status {
            201 => text("token")
                .map(SecretValue::new)
                .ok_or_else(|| unavailable("the answer has no token".to_owned())),
            401 | 403 | 404 | 422 => {
                Err(GitHubAppError::Refused { status, message: text("message").and_then(plain) })
            }
            _ => Err(unavailable(format!("it answered with status {status}"))),
        };
        wipe(&mut answer);
        made
    }

    /// The proof of the App's identity: a JSON Web Token.
    fn proof(&self, key: &RsaKeyPair, now: SystemTime) -> Result<Zeroizing<String>, GitHubAppError> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let claims = json!({
            "iat": now.saturating_sub(BEFORE).as_secs(),
            "exp": now.saturating_add(AFTER).as_secs(),
            "iss": self.app,
        });
        let encoded = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
        let signed = format!(
            "{}.{}",
            encoded(br#"{"alg":"RS256","typ":"JWT"}"#),
            encoded(claims.to_string().as_bytes())
        );
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .map_err(|_| GitHubAppError::Key)?;
        Ok(Zeroizing::new(format!("{signed}.{}", encoded(&signature))))
    }
}

impl fmt::Display for GitHubApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tokens of the GitHub App {} from {}, for {}",
            self.app.escape_debug(),
            self.url,
            self.repositories.join(", ")
        )
    }
}

/// PKCS#1, as provided by GitHub, or PKCS#8.
fn read_key(pem: &[u8]) -> Result<RsaKeyPair, GitHubAppError> {
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| GitHubAppError::Key)?;
    let pair = match &key {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err(GitHubAppError::Key),
    };
    pair.map_err(|_| GitHubAppError::Key)
}

/// A short sentence, or `None`: the answer is untrusted.
fn plain(text: &str) -> Option<String> {
    (text.len() <= 200 && text.chars().all(|c| c == ' ' || c.is_ascii_graphic())).then(|| text.to_owned())
}

fn quoted(message: Option<&str>) -> String {
    message.map(|message| format!(", \"{message}\"")).unwrap_or_default()
}

fn refusal(status: u16) -> &'static str {
    match status {
        401 => "check `app`, its key and this machine's clock",
        404 => "check `installation`",
        422 => "check that the App is installed in all `repositories`",
        _ => "check the permissions of the App",
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Generated for these tests.
    const KEY: &[u8] = include_bytes!("github_app/test-key.pem");

    fn app(api: &str) -> GitHubApp {
        GitHubApp::new("Iv23liExample", 77, ["tool", "docs"], api).unwrap()
    }

    /// The token from an API with this answer, and the request.
    async fn asked(status: &str, body: &str) -> (Result<SecretValue, GitHubAppError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let app = app(&format!("http://{}/api/v3/", listener.local_addr().unwrap()));
        let answer =
            format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"]}") {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0);
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(request).unwrap()
        };
        tokio::join!(app.token(KEY, SystemTime::now()), server)
    }

    #[tokio::test]
    async fn token_is_requested_for_the_repositories() {
        let (token, request) = asked("201 Created", r#"{"token":"ghs_hunter2","expires_at":"x"}"#).await;
        assert_eq!(token.unwrap().expose(), "ghs_hunter2");
        assert!(
            request.starts_with("POST /api/v3/app/installations/77/access_tokens HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(request.ends_with(r#"{"repositories":["tool","docs"]}"#), "{request}");
        assert!(request.contains("\r\nauthorization: Bearer ey"), "{request}");
    }

    #[tokio::test]
    async fn refusal_names_what_to_check() {
        for (status, body, expected) in [
            (
                "401 Unauthorized",
                r#"{"message":"A JSON web token could not be decoded"}"#,
                "status 401, \"A JSON web token could not be decoded\"): check `app`, its key",
            ),
            ("404 Not Found", "{}", "status 404): check `installation`"),
            (
                "422 Unprocessable",
                r#"{"message":"\u001b[2J"}"#,
                "status 422): check that the App is installed",
            ),
            ("201 Created", r#"{"token":""}"#, "the answer has no token"),
            ("302 Found", "", "status 302"),
            ("500 Oops", "<html>", "status 500"),
        ] {
            let error = asked(status, body).await.0.unwrap_err().to_string();
            assert!(error.contains(expected), "{status}: {error}");
        }
    }

    #[test]
    fn proof_is_signed_by_the_key_and_valid_for_minutes() {
        let key = read_key(KEY).unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let proof = app("https://api.example").proof(&key, now).unwrap();
        let (signed, signature) = proof.rsplit_once('.').unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public());
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert!(public.verify(signed.as_bytes(), &signature).is_ok());
        // Control.
        assert!(public.verify(&signed.as_bytes()[1..], &signature).is_err());
        let claims = URL_SAFE_NO_PAD.decode(signed.rsplit_once('.').unwrap().1).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims, json!({"iat": 999_940, "exp": 1_000_480, "iss": "Iv23liExample"}));
    }

    #[test]
    fn key_must_be_rsa_and_the_api_encrypted() {
        for key in
            [&b"nonsense"[..], b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"]
        {
            assert_eq!(read_key(key).err(), Some(GitHubAppError::Key));
        }
        for api in [
            "http://api.example",
            "https://evil.example/?https://api.github.com",
            "https://evil.example#",
            "api.github.com",
        ] {
            assert!(GitHubApp::new("1", 1, ["a"], api).is_err(), "{api}");
        }
    }
}
