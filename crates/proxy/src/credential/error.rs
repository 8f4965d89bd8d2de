//! The reason why a request cannot carry its credentials. No message contains a value.

use http::HeaderName;

use crate::signing::SignError;

/// A request that must not be sent, because its credentials are not complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialError {
    /// The real value contains bytes that are not valid in a header.
    #[error(
        "the real value of a credential is not valid in the header {header}: it has characters that no header may have"
    )]
    Value {
        /// The header that carries the surrogate.
        header: HeaderName,
    },
    /// The request cannot be signed again.
    #[error(transparent)]
    Sign(#[from] SignError),
}
