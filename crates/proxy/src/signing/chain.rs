//! The chain of signatures in a body: each signs its piece and the signature before it.

use sha2::{Digest, Sha256};

use super::algorithm::Algorithm;
use super::encoding::{hex, sha256_hex};
use super::key::SigningKey;

/// The signer of the next piece.
pub(super) struct Chain {
    key: SigningKey,
    algorithm: Algorithm,
    /// The lines with time and scope.
    context: String,
    previous: String,
}

impl Chain {
    /// Creates a chain that begins with the signature of the request itself.
    pub(super) fn new(
        key: SigningKey,
        algorithm: Algorithm,
        timestamp: &str,
        scope: &str,
        seed: String,
    ) -> Self {
        Self { key, algorithm, context: format!("{timestamp}\n{scope}"), previous: seed }
    }

    /// The algorithm of all its signatures.
    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Signs a chunk, whose bytes were fed to `hash`.
    pub(super) fn sign_chunk(&mut self, hash: Sha256) -> &str {
        let payload = format!("{}\n{}", sha256_hex(b""), hex(&hash.finalize()));
        self.sign("PAYLOAD", &payload)
    }

    /// Signs the block of trailers.
    pub(super) fn sign_trailers(&mut self, canonical: &[u8]) -> &str {
        self.sign("TRAILER", &sha256_hex(canonical))
    }

    fn sign(&mut self, kind: &str, payload: &str) -> &str {
        let string_to_sign =
            format!("{}-{kind}\n{}\n{}\n{payload}", self.algorithm.name(), self.context, self.previous);
        self.previous = self.key.sign(&string_to_sign);
        &self.previous
    }
}
