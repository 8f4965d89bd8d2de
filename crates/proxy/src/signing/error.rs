//! Errors in re-signing a request. No message quotes a credential.

/// Why a signature cannot be read or recomputed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignError {
    /// More than one signature, or a part of it more than once: which one counts would be up to the
    /// reader.
    #[error("the request carries more than one `{0}`")]
    Ambiguous(&'static str),
    /// A part that is missing or malformed.
    #[error("the AWS signature cannot be read: {0}")]
    Malformed(&'static str),
    /// A scheme that is not recomputed, such as signature version 2.
    #[error("this kind of AWS signature cannot be recomputed")]
    ForeignScheme,
    /// The client signed a header that it did not send.
    #[error("the signed header `{0}` is not in the request")]
    MissingHeader(http::HeaderName),
    /// A body whose kind of signature is not recomputed, such as an event stream.
    #[error("a body of this kind cannot be re-signed: {0}")]
    UnsupportedPayload(&'static str),
    /// The real credential has characters that no header may have.
    #[error("the real {0} does not fit into a header")]
    UnusableCredential(&'static str),
}

/// Why a body that is signed piece by piece cannot be re-signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChunkError {
    /// A chunk of more than [`MAX_CHUNK`](super::MAX_CHUNK) bytes.
    #[error("a signed chunk is larger than {} bytes", super::MAX_CHUNK)]
    TooLarge,
    /// Bytes that are not such a body.
    #[error("the signed chunks cannot be read: {0}")]
    Malformed(&'static str),
    /// The body ended in the middle.
    #[error("the signed chunks end too early")]
    Truncated,
    /// There is data after the last chunk.
    #[error("there is data after the last signed chunk")]
    DataAfterEnd,
    /// The new signature has more digits than the client left room for.
    #[error("the new signature is longer than the client's")]
    SignatureWidth,
}
