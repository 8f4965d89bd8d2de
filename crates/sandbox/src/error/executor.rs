//! Errors of executors, in addition to those of any container.

/// An operation of an executor failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// The container ended before the command did: it was removed, or ran out of memory.
    #[error("the container of the command ended{}", because(stderr))]
    ContainerEnded {
        /// The tail of its stderr, escaped; often empty.
        stderr: String,
    },
    /// A command could not be started, or a file could not be read or written, in the container.
    #[error("{problem}")]
    Failed {
        /// The operation and its error, escaped.
        problem: String,
    },
}

fn because(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its stderr: {stderr}") }
}
