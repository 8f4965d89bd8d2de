//! Why a body cannot be decoded.

/// An error that ends a body. No message quotes any part of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::scrub) enum DecodeError {
    #[error("failed to decode the answer's body: it is not valid {coding}")]
    Invalid { coding: &'static str },
    #[error("failed to decode the answer's body: its {coding} data is cut off")]
    CutOff { coding: &'static str },
    #[error("failed to decode the answer's body: the decoder makes no progress")]
    Stuck,
    #[error("failed to decode the answer's body: too many answers are being decoded")]
    Busy,
}
