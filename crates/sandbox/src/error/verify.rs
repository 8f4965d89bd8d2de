//! Why nothing could be verified.

use std::io;

/// A sandbox could not be verified: that says nothing about its guarantees.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The namespaces of this process cannot be read, so there is nothing to compare the
    /// container's with.
    #[error("failed to read the namespaces of this process")]
    Namespaces(#[source] io::Error),
    /// The order for the container cannot be written.
    #[error("failed to write the order for the container")]
    Order(#[source] serde_json::Error),
}
