//! Why a request cannot carry its credentials. No message holds a value.

use http::HeaderName;

use crate::signing::SignError;

/// A request that must not be sent, since its credentials are not complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialError {
    /// The real value has bytes that no header may have.
    #[error(
        "the real value of a credential cannot stand in the header {header}: it has characters that no header may have"
    )]
    Value {
        /// The header that carries the surrogate.
        header: HeaderName,
    },
    /// The request cannot be signed again.
    #[error(transparent)]
    Sign(#[from] SignError),
}
