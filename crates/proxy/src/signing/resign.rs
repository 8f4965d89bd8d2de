//! Recomputing the signature of a request.

use std::fmt;

use sandbox_credentials::wire::SigningReplacement;

use super::chunks::ChunkSigner;
use super::claim::Claim;
use super::draft::{Draft, Request, Signed};
use super::encoding::hex;
use super::error::SignError;
use super::payload::Payload;
use super::rules::Rules;

/// How far a request could be signed without its body.
#[derive(Debug)]
pub(crate) enum Resigned {
    /// All the way.
    Ready(Signed),
    /// The body must be hashed first.
    Hash(Pending),
    /// All the way, and the body must pass through the signer.
    Chunked(Signed, ChunkSigner),
}

/// A request waiting for the hash of its body.
pub(crate) struct Pending(Draft);

/// Replaces the credential in `request`, which carries `claim`, with the real `key`, and signs it.
///
/// # Errors
///
/// See [`SignError`]; the request must then not be sent.
pub(crate) fn resign(
    claim: &Claim,
    key: &SigningReplacement,
    request: Request<'_>,
) -> Result<Resigned, SignError> {
    let rules = Rules::of(claim.signature()?.scope.service());
    let (draft, payload) = Draft::new(claim, rules, key, request)?;
    Ok(match payload {
        Payload::Stated(text) => Resigned::Ready(draft.sign(&text)?.0),
        Payload::Hash => Resigned::Hash(Pending(draft)),
        Payload::Chunks { text, trailers } => {
            let (signed, chain) = draft.sign(&text)?;
            Resigned::Chunked(signed, ChunkSigner::new(chain, trailers))
        }
    })
}

impl Pending {
    /// Signs with the SHA-256 hash of the body.
    ///
    /// # Errors
    ///
    /// See [`SignError`]; the request must then not be sent.
    pub(crate) fn finish(self, sha256: [u8; 32]) -> Result<Signed, SignError> {
        Ok(self.0.sign(&hex(&sha256))?.0)
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending(redacted)")
    }
}
