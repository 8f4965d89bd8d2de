//! A request whose credential is already replaced and whose signature is still to be computed.

use std::fmt;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use sandbox_credentials::wire::SigningReplacement;
use zeroize::Zeroizing;

use super::algorithm::Algorithm;
use super::canonical::{canonical_headers, canonical_path};
use super::chain::Chain;
use super::claim::{Carrier, Claim};
use super::encoding::sha256_hex;
use super::error::SignError;
use super::key::SigningKey;
use super::payload::Payload;
use super::presigned::{SIGNATURE, replace_key_id, replace_signature};
use super::rules::Rules;
use super::target::Target;
use super::token::{TOKEN, replace_token, sensitive};
use crate::headers::concerns_one_connection;

/// A request as it will be sent, but for the credential.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The method.
    pub(crate) method: &'a str,
    /// The `Host` header that the upstream gets, with its port if it has one.
    pub(crate) host: &'a str,
    /// Path and query.
    pub(crate) target: &'a str,
    /// The headers. Every other change to the headers must come before.
    pub(crate) headers: HeaderMap,
}

/// A request with the real credential.
#[derive(PartialEq, Eq)]
pub(crate) struct Signed {
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// Path and query.
    pub(crate) target: String,
}

/// Everything that is signed but the body.
pub(super) struct Draft {
    carrier: Carrier,
    algorithm: Algorithm,
    timestamp: String,
    scope: String,
    headers: HeaderMap,
    target: Target,
    signed_headers: String,
    /// The canonical request up to the line for the body. It has the session token in it.
    canonical: Zeroizing<Vec<u8>>,
    /// `KEY-ID/SCOPE`.
    credential: Zeroizing<String>,
    key: SigningKey,
}

impl Draft {
    /// Replaces the credential in `request`, and reads how its signature covers the body.
    ///
    /// # Errors
    ///
    /// See [`SignError`].
    pub(super) fn new(
        claim: &Claim,
        rules: Rules,
        key: &SigningReplacement,
        request: Request<'_>,
    ) -> Result<(Self, Payload), SignError> {
        let signature = claim.signature()?;
        let carrier = claim.carrier();
        let mut headers = request.headers;
        let mut target = Target::new(request.target);
        // The token and the key id come first: what is signed must be what is sent.
        replace_token(key, &mut headers, &mut target)?;
        if carrier == Carrier::Query {
            replace_key_id(&mut target, key.access_key_id.expose());
        }
        let payload = Payload::of(signature, carrier, rules, &headers, &target)?;
        let names = signed_names(carrier, &signature.signed_headers, key, &headers);
        let signed_headers = names.iter().map(HeaderName::as_str).collect::<Vec<_>>().join(";");
        let mut canonical = Zeroizing::new(Vec::new());
        for line in [
            request.method,
            &canonical_path(rules.path, target.path()),
            &target.canonical_query(unsigned_parameters(carrier, rules)),
        ] {
            canonical.extend_from_slice(line.as_bytes());
            canonical.push(b'\n');
        }
        canonical.extend(canonical_headers(&names, &headers, request.host)?);
        canonical.push(b'\n');
        canonical.extend_from_slice(signed_headers.as_bytes());
        canonical.push(b'\n');
        let scope = signature.scope.text().to_owned();
        let draft = Self {
            carrier,
            algorithm: signature.algorithm,
            timestamp: signature.timestamp.text().to_owned(),
            headers,
            target,
            signed_headers,
            canonical,
            credential: Zeroizing::new(format!("{}/{scope}", key.access_key_id.expose())),
            scope,
            key: SigningKey::derive(signature.algorithm, key, &signature.scope)?,
        };
        Ok((draft, payload))
    }

    /// Signs, with `payload` for the body. The chain returned with the request continues with its
    /// chunks.
    ///
    /// # Errors
    ///
    /// When the real key id does not fit into a header.
    pub(super) fn sign(mut self, payload: &str) -> Result<(Signed, Chain), SignError> {
        let signature = self.key.sign(&self.string_to_sign(payload));
        match self.carrier {
            Carrier::Header => {
                let value = format!(
                    "{} Credential={}, SignedHeaders={}, Signature={signature}",
                    self.algorithm.name(),
                    self.credential.as_str(),
                    self.signed_headers
                );
                let value = sensitive(&value).ok_or(SignError::UnusableCredential("access key id"))?;
                self.headers.insert(AUTHORIZATION, value);
            }
            Carrier::Query => replace_signature(&mut self.target, &signature),
        }
        let signed = Signed { headers: self.headers, target: self.target.to_string() };
        let chain = Chain::new(self.key, self.algorithm, &self.timestamp, &self.scope, signature);
        Ok((signed, chain))
    }

    /// The whole canonical request.
    pub(super) fn canonical_request(&self, payload: &str) -> Zeroizing<Vec<u8>> {
        let mut text = self.canonical.clone();
        text.extend_from_slice(payload.as_bytes());
        text
    }

    /// The text that the key signs.
    pub(super) fn string_to_sign(&self, payload: &str) -> String {
        format!(
            "{}\n{}\n{}\n{}",
            self.algorithm.name(),
            self.timestamp,
            self.scope,
            sha256_hex(&self.canonical_request(payload))
        )
    }
}

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signed(redacted)")
    }
}

/// The client's own list, without a session token that is not sent and without headers that
/// concerned only the client's connection (some SDKs sign `Transfer-Encoding`). A presigned URL
/// contains its list, which stays as it is.
fn signed_names(
    carrier: Carrier,
    names: &[HeaderName],
    key: &SigningReplacement,
    headers: &HeaderMap,
) -> Vec<HeaderName> {
    let keeps_token = carrier == Carrier::Query || key.session_token.is_some();
    let was_dropped = |name: &HeaderName| carrier == Carrier::Header && ends_here(name, headers);
    names
        .iter()
        .filter(|name| (keeps_token || name.as_str() != TOKEN) && !was_dropped(name))
        .cloned()
        .collect()
}

fn ends_here(name: &HeaderName, headers: &HeaderMap) -> bool {
    concerns_one_connection(name) && !headers.contains_key(name)
}

fn unsigned_parameters(carrier: Carrier, rules: Rules) -> &'static [&'static str] {
    match carrier {
        Carrier::Header => &[],
        Carrier::Query if rules.signs_query_token => &[SIGNATURE],
        Carrier::Query => &[SIGNATURE, TOKEN],
    }
}
