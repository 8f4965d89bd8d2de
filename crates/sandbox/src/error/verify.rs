//! Why nothing could be verified.

use std::io;
use std::path::PathBuf;

/// A sandbox could not be verified: that says nothing about its promises.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// There is no probe that the engine could run.
    #[error("no usable sandbox-verify-probe: {problem}; run `cargo xtask proxy-image`")]
    Program {
        /// What was looked at, and what is wrong with it.
        problem: String,
    },
    /// The probe cannot be put where the engine sees it.
    #[error("failed to write the probe to `{}`", path.display())]
    Probe {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The namespaces of this process cannot be told, so that nothing can be compared with them.
    #[error("failed to read the namespaces of this process")]
    Namespaces(#[source] io::Error),
    /// The order for the probe cannot be written.
    #[error("failed to write the order for the probe")]
    Order(#[source] serde_json::Error),
}
