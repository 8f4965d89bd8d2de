//! Installation tokens of a GitHub App: made with the App's key, for single repositories, good for
//! an hour.

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

/// How long before now a proof says that it was made: clocks differ.
const BEFORE: Duration = Duration::from_mins(1);
/// How long after now a proof ends; GitHub takes ten minutes at most.
const AFTER: Duration = Duration::from_mins(8);

/// An installation of a GitHub App, and the repositories that its tokens are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHubApp {
    app: String,
    repositories: Vec<String>,
    url: TokenUrl,
}

/// Why there is no installation token. No message shows the key or a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GitHubAppError {
    /// What is given as the key is none.
    #[error("the key is not an RSA private key in PEM: download it from the settings of the GitHub App")]
    Key,
    /// GitHub does not take the App's proof, or gives no such token.
    #[error("GitHub refused an installation token (status {status}{}): {}", quoted(.message.as_deref()), refusal(*.status))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What GitHub calls it, if it does.
        message: Option<String>,
    },
    /// There was no answer, or none that GitHub gives. Another attempt may succeed.
    #[error("failed to get an installation token from {url}: {problem}")]
    Unavailable {
        /// Where it was tried.
        url: String,
        /// What happened.
        problem: String,
    },
}

impl GitHubApp {
    /// The installation number `installation` of the App with the id or client id `app`. Tokens are
    /// for `repositories` of it, named without their owner, and made by the API at `api`, such as
    /// `https://api.github.com`.
    ///
    /// # Errors
    ///
    /// When keys must not be used at `api`: it is neither `https` nor on this machine's loopback.
    pub fn new(
        app: impl Into<String>,
        installation: u64,
        repositories: impl IntoIterator<Item = impl Into<String>>,
        api: &str,
    ) -> Result<Self, InvalidTokenUrl> {
        // Each would take the path that follows with it.
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

    /// How long a token is good.
    pub const LIFETIME: Duration = Duration::from_hours(1);

    /// Makes a token with the App's private key, an RSA key in PEM as GitHub gives it. One request
    /// is sent; an answer has 30 s.
    ///
    /// # Errors
    ///
    /// When `key` is none, or GitHub gives no token.
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

    /// What proves that the App asks: a JSON Web Token.
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

/// PKCS#1, as GitHub gives it, or PKCS#8.
fn read_key(pem: &[u8]) -> Result<RsaKeyPair, GitHubAppError> {
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| GitHubAppError::Key)?;
    let pair = match &key {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err(GitHubAppError::Key),
    };
    pair.map_err(|_| GitHubAppError::Key)
}

/// A short sentence, or nothing: whatever answered may say anything.
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

    /// Made for these tests.
    const KEY: &[u8] = include_bytes!("github_app/test-key.pem");

    fn app(api: &str) -> GitHubApp {
        GitHubApp::new("Iv23liExample", 77, ["tool", "docs"], api).unwrap()
    }

    /// What a token is, from an API that answers so, and what the API was sent.
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
    async fn a_token_is_made_for_the_repositories() {
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
    async fn what_gives_no_token_says_what_to_check() {
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
    fn a_proof_is_signed_by_the_key_and_good_for_minutes() {
        let key = read_key(KEY).unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let proof = app("https://api.example").proof(&key, now).unwrap();
        let (signed, signature) = proof.rsplit_once('.').unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public());
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        assert!(public.verify(signed.as_bytes(), &signature).is_ok());
        // The control.
        assert!(public.verify(&signed.as_bytes()[1..], &signature).is_err());
        let claims = URL_SAFE_NO_PAD.decode(signed.rsplit_once('.').unwrap().1).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims, json!({"iat": 999_940, "exp": 1_000_480, "iss": "Iv23liExample"}));
    }

    #[test]
    fn keys_are_rsa_keys_and_stay_on_encrypted_ways() {
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
