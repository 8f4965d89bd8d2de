//! The key that signs: derived from the real secret, once per request.

use aws_sigv4::sign::{v4, v4a};
use sandbox_credentials::SigningReplacement;
use zeroize::Zeroizing;

use super::claim::Algorithm;
use super::scope::Scope;

/// A derived key. It is wiped from memory when dropped and has no `Debug`.
pub(super) struct SigningKey {
    algorithm: Algorithm,
    bytes: Zeroizing<Vec<u8>>,
}

impl SigningKey {
    /// Narrows the real key to `scope`.
    pub(super) fn derive(algorithm: Algorithm, key: &SigningReplacement, scope: &Scope) -> Self {
        let secret = key.secret_access_key.expose();
        let bytes = match algorithm {
            Algorithm::V4 => {
                let region = scope.region().unwrap_or_default();
                v4::generate_signing_key(secret, scope.day(), region, scope.service())
                    .as_ref()
                    .to_vec()
            }
            Algorithm::V4a => v4a::generate_signing_key(key.access_key_id.expose(), secret)
                .as_ref()
                .to_vec(),
        };
        Self {
            algorithm,
            bytes: Zeroizing::new(bytes),
        }
    }

    /// The signature of `string_to_sign`, in hexadecimal digits.
    pub(super) fn sign(&self, string_to_sign: &str) -> String {
        match self.algorithm {
            Algorithm::V4 => v4::calculate_signature(self.bytes.as_slice(), string_to_sign.as_bytes()),
            Algorithm::V4a => v4a::calculate_signature(self.bytes.as_slice(), string_to_sign.as_bytes()),
        }
    }
}
