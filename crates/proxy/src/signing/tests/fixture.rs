//! Shared by the tests of this module: keys, and requests in wire format.

use http::{HeaderMap, HeaderName, HeaderValue};
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{DerSignature, VerifyingKey};
use sandbox_credentials::SecretValue;
use sandbox_credentials::wire::SigningReplacement;

/// The surrogates of the parts of a key.
pub(super) const SURROGATE_KEY_ID: &str = "AKIASURROGATE0000000";
pub(super) const SURROGATE_TOKEN: &str = "SurrogateToken0123456789";

/// A real key.
pub(super) fn real_key(id: &str, secret: &str, token: Option<&str>) -> SigningReplacement {
    SigningReplacement {
        name: String::new(),
        access_key_id: SecretValue::new(id),
        secret_access_key: SecretValue::new(secret),
        surrogate_secret_access_key: "surrogate-secret".to_owned(),
        session_token: token.map(|token| (SecretValue::new(token), SURROGATE_TOKEN.to_owned())),
        scopes: Vec::new(),
        allow_foreign_credentials: false,
    }
}

/// A request parsed from text: request line, headers, an empty line, the body.
#[derive(Debug, Clone)]
pub(super) struct WireRequest {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl WireRequest {
    /// Parses a request. A folded header line is unfolded, as any reader that accepts it must do.
    pub(super) fn new(text: &str) -> Self {
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
        let target = target.strip_suffix(" HTTP/1.1").unwrap_or(target);
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in lines {
            if line.starts_with([' ', '\t']) {
                let (_, value) = fields.last_mut().unwrap();
                value.push(' ');
                value.push_str(line);
            } else {
                let (name, value) = line.split_once(':').unwrap();
                fields.push((name.to_owned(), value.trim().to_owned()));
            }
        }
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(&value).unwrap(),
            );
        }
        let length = header(&headers, "content-length").map_or(0, |length| length.parse().unwrap());
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            body: body.as_bytes().get(..length).unwrap_or_default().to_vec(),
        }
    }

    /// Its host.
    pub(super) fn host(&self) -> &str {
        header(&self.headers, "host").unwrap()
    }
}

/// The first value of a header.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

/// Whether `signature`, in hexadecimal digits, is a signature of `text` by the owner of the point
/// `x`, `y`.
pub(super) fn verifies(x: &str, y: &str, text: &str, signature: &str) -> bool {
    let point = [vec![4], unhex(x), unhex(y)].concat();
    let key = VerifyingKey::from_sec1_bytes(&point).unwrap();
    let signature = DerSignature::try_from(unhex(signature).as_slice()).unwrap();
    key.verify(text.as_bytes(), &signature).is_ok()
}

/// The bytes that hexadecimal digits represent.
pub(super) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
