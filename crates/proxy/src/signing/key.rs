//! The signing key, derived from the real secret once per request.

use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{DerSignature, SigningKey as EcdsaKey};
use ring::hmac::{self, HMAC_SHA256};
use sandbox_credentials::wire::SigningReplacement;
use zeroize::Zeroizing;

use super::algorithm::Algorithm;
use super::encoding::hex;
use super::error::SignError;
use super::scope::{Scope, TERMINATOR};

/// The order of P-256 (SP 800-186, 3.2.1.3) minus two: the largest candidate for a key.
const LARGEST: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc,
    0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x4f,
];

/// A derived key. It is wiped from memory when dropped and has no `Debug`.
pub(super) enum SigningKey {
    /// For HMAC.
    V4(Zeroizing<Vec<u8>>),
    /// For ECDSA.
    V4a(EcdsaKey),
}

impl SigningKey {
    /// Narrows the real key to `scope`.
    ///
    /// # Errors
    ///
    /// [`SignError::UnusableCredential`] if no ECDSA key can be derived, which no secret is known
    /// to cause.
    pub(super) fn derive(
        algorithm: Algorithm,
        key: &SigningReplacement,
        scope: &Scope,
    ) -> Result<Self, SignError> {
        let secret = key.secret_access_key.expose();
        match algorithm {
            Algorithm::V4 => {
                let secret = Zeroizing::new(format!("AWS4{secret}").into_bytes());
                let region = scope.region().unwrap_or_default();
                let narrowed = [scope.day(), region, scope.service(), TERMINATOR]
                    .into_iter()
                    .fold(secret, |key, part| hmac_sha256(&key, part.as_bytes()));
                Ok(Self::V4(narrowed))
            }
            Algorithm::V4a => {
                let secret = Zeroizing::new(format!("AWS4A{secret}").into_bytes());
                (1..u8::MAX)
                    .find_map(|counter| ecdsa_key(&secret, key.access_key_id.expose(), counter))
                    .map(Self::V4a)
                    .ok_or(SignError::UnusableCredential("secret access key"))
            }
        }
    }

    /// The signature of `string_to_sign`, in hexadecimal digits.
    pub(super) fn sign(&self, string_to_sign: &str) -> String {
        match self {
            Self::V4(key) => hex(&hmac_sha256(key, string_to_sign.as_bytes())),
            Self::V4a(key) => {
                let signature: DerSignature = key.sign(string_to_sign.as_bytes());
                hex(signature.as_bytes())
            }
        }
    }
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> Zeroizing<Vec<u8>> {
    let tag = hmac::sign(&hmac::Key::new(HMAC_SHA256, key), text);
    Zeroizing::new(tag.as_ref().to_vec())
}

/// One round of the key derivation of SigV4A (SP 800-108, counter mode); `None` if the next round
/// must be tried.
fn ecdsa_key(secret: &[u8], key_id: &str, counter: u8) -> Option<EcdsaKey> {
    let mut input = Zeroizing::new(vec![0, 0, 0, 1]);
    input.extend_from_slice(Algorithm::V4a.name().as_bytes());
    input.push(0);
    input.extend_from_slice(key_id.as_bytes());
    input.extend_from_slice(&[counter, 0, 0, 1, 0]);
    let mut candidate = hmac_sha256(secret, &input);
    if candidate.as_slice() > LARGEST.as_slice() {
        return None;
    }
    // Plus one: a key is never zero.
    for byte in candidate.iter_mut().rev() {
        let overflowed;
        (*byte, overflowed) = byte.overflowing_add(1);
        if !overflowed {
            break;
        }
    }
    EcdsaKey::from_slice(&candidate).ok()
}
