//! AWS signatures: ours are recomputed, others are removed.

use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderName, HeaderValue};
use sandbox_proxy_protocol::Scheme;

use super::error::CredentialError;
use super::key::{Key, TOKENS};
use super::plan::BodyPlan;
use super::scope::Scope;
use crate::signing::{self, Carrier, Claim, Request, Resigned, Signed};

/// The kind of a request's AWS signature.
pub(super) enum Claimed<'a> {
    /// It has none, or one that is forwarded: no key signs for its host, or all that do allow
    /// foreign ones.
    Unsigned,
    /// It was created with the surrogate of this key.
    Ours(Claim, &'a Key),
    /// It was created with another key; without a claim, the request has only a session token in
    /// the query.
    Foreign(Option<Claim>),
}

impl Claimed<'_> {
    /// The headers that are replaced, or belong to the signature, when the request is signed.
    pub(super) fn headers(&self) -> Vec<HeaderName> {
        match self {
            Self::Ours(claim, _) if claim.carrier() == Carrier::Header => {
                [AUTHORIZATION].into_iter().chain(TOKENS).collect()
            }
            Self::Ours(..) => TOKENS.into(),
            _ => Vec::new(),
        }
    }
}

/// Looks for a signature. Over plain HTTP nothing is signed, so there the container's own signature
/// is as foreign as any.
pub(super) fn claim<'a>(
    headers: &HeaderMap,
    target: &str,
    scope: &Scope<'a>,
) -> Result<Claimed<'a>, CredentialError> {
    if scope.keys.is_empty() {
        return Ok(Claimed::Unsigned);
    }
    let claim = signing::claim(headers, target)?;
    if let Some(claim) = &claim
        && let Some(key) = key_of(claim, scope)
    {
        return Ok(Claimed::Ours(claim.clone(), key));
    }
    let foreign = scope.strips_signatures() && (claim.is_some() || signing::has_token(target));
    Ok(if foreign { Claimed::Foreign(claim) } else { Claimed::Unsigned })
}

/// The key with whose surrogate the signature was created, if the request may be signed at all.
fn key_of<'a>(claim: &Claim, scope: &Scope<'a>) -> Option<&'a Key> {
    let mut keys = scope.keys.iter().copied();
    let key = keys.find(|key| key.surrogate() == claim.key_id());
    key.filter(|_| scope.scheme == Scheme::Https)
}

/// Signs the request with the real key. The upstream gets the host in its canonical form, which is
/// the form that is signed.
pub(super) fn sign(
    claim: &Claim,
    key: &Key,
    mut request: Request<'_>,
) -> Result<(HeaderMap, Option<String>, BodyPlan), CredentialError> {
    if let (Some(sent), Ok(host)) = (request.headers.get_mut(HOST), HeaderValue::from_str(request.host)) {
        *sent = host;
    }
    let before = request.target.to_owned();
    let (signed, body) = match signing::resign(claim, key.replacement(), request)? {
        Resigned::Ready(signed) => (signed, BodyPlan::Pass),
        Resigned::Hash(pending) => return Ok((HeaderMap::new(), None, BodyPlan::Hash(Box::new(pending)))),
        Resigned::Chunked(signed, chunks) => (signed, BodyPlan::Chunks(Box::new(chunks))),
    };
    let Signed { mut headers, target } = signed;
    hide(&mut headers);
    Ok((headers, (target != before).then_some(target), body))
}

/// Marks the headers of a signature as sensitive, so that they are neither displayed nor stored by
/// header compression.
pub(crate) fn hide(headers: &mut HeaderMap) {
    for (name, value) in headers.iter_mut() {
        if *name == AUTHORIZATION || TOKENS.contains(name) {
            value.set_sensitive(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_signature_are_marked_sensitive() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "x-amz-security-token", "x-amz-date"] {
            headers.insert(name, HeaderValue::from_static("value"));
        }
        hide(&mut headers);
        let hidden: Vec<&str> =
            headers.iter().filter(|(_, value)| value.is_sensitive()).map(|(name, _)| name.as_str()).collect();
        assert_eq!(hidden, ["authorization", "x-amz-security-token"]);
    }
}
