//! How a signature covers the body.

use http::HeaderMap;

use super::algorithm::Algorithm;
use super::claim::{Carrier, Signature, single};
use super::error::SignError;
use super::rules::Rules;
use super::target::Target;

/// The header, or in presigned URLs the parameter, that states it.
const CONTENT: &str = "x-amz-content-sha256";

/// The body, as it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Payload {
    /// This text is signed instead.
    Stated(String),
    /// The hash of the body is signed, which the request does not state.
    Hash,
    /// This text is signed instead, and each chunk has a signature of its own.
    Chunks { text: String, trailers: bool },
}

impl Payload {
    /// Reads how the body of a request is signed.
    ///
    /// # Errors
    ///
    /// When the statement of the request is repeated, is unreadable or names a signature that
    /// cannot be recomputed.
    pub(super) fn of(
        signature: &Signature,
        carrier: Carrier,
        rules: Rules,
        headers: &HeaderMap,
        target: &Target,
    ) -> Result<Self, SignError> {
        let stated = match (single(headers, CONTENT)?, carrier) {
            (None, Carrier::Query) => target.value(CONTENT)?,
            (stated, _) => stated,
        };
        match stated {
            Some(text) => Self::stated(signature.algorithm, text),
            None if carrier == Carrier::Query && rules.presigned_body_is_unsigned => {
                Ok(Self::Stated("UNSIGNED-PAYLOAD".to_owned()))
            }
            None => Ok(Self::Hash),
        }
    }

    fn stated(algorithm: Algorithm, text: &str) -> Result<Self, SignError> {
        let streamed = match text.strip_prefix("STREAMING-") {
            None | Some("UNSIGNED-PAYLOAD-TRAILER") => return Ok(Self::Stated(text.to_owned())),
            Some(streamed) => streamed,
        };
        let trailers = match streamed.strip_prefix(algorithm.name()) {
            Some("-PAYLOAD") => false,
            Some("-PAYLOAD-TRAILER") => true,
            Some(_) => return Err(SignError::UnsupportedPayload("its pieces are not chunks")),
            None => {
                return Err(SignError::UnsupportedPayload(
                    "its chunks use another algorithm than the request",
                ));
            }
        };
        Ok(Self::Chunks { text: text.to_owned(), trailers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_payloads_are_told_apart() {
        let chunks = |text: &str, trailers| Ok(Payload::Chunks { text: text.to_owned(), trailers });
        let v4 = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        let v4a = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER";
        assert_eq!(Payload::stated(Algorithm::V4, v4), chunks(v4, false));
        assert_eq!(Payload::stated(Algorithm::V4a, v4a), chunks(v4a, true));
        for text in ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "e3b0"] {
            assert_eq!(Payload::stated(Algorithm::V4, text), Ok(Payload::Stated(text.to_owned())));
        }
        for text in [v4a, "STREAMING-AWS4-HMAC-SHA256-EVENTS", "STREAMING-"] {
            assert!(
                matches!(Payload::stated(Algorithm::V4, text), Err(SignError::UnsupportedPayload(_))),
                "{text}"
            );
        }
    }
}
