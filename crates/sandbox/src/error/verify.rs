//! Errors of a verification.

use std::io;

/// A sandbox could not be verified: this does not mean that a guarantee is broken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The namespaces of this process cannot be read, so there is nothing to compare the
    /// container's namespaces with.
    #[error("failed to read the namespaces of this process")]
    Namespaces(#[source] io::Error),
    /// The order for the container could not be serialized.
    #[error("failed to write the order for the container")]
    Order(#[source] serde_json::Error),
}
