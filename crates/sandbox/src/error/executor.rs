//! What can go wrong with an executor, beside what can go wrong with any container.

use std::io;
use std::path::PathBuf;

/// An executor could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// There is no program that containers could begin with.
    #[error("no usable sandbox-supervisor: {problem}; run `cargo xtask proxy-image`")]
    Supervisor {
        /// What was looked at, and what is wrong with it.
        problem: String,
    },
    /// That program cannot be put where the engine can mount it.
    #[error("failed to write the program `{}`", path.display())]
    Program {
        /// Where it was to be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The container ended before the command did: somebody removed it, or it had no memory left.
    #[error("the container of the command ended{}", because(said))]
    ContainerEnded {
        /// What its supervisor last said, escaped; often nothing.
        said: String,
    },
    /// A command could not be started, or a file not be read or written, in the container.
    #[error("{problem}")]
    Failed {
        /// What and why, escaped.
        problem: String,
    },
}

fn because(said: &str) -> String {
    if said.is_empty() {
        String::new()
    } else {
        format!("; it said: {said}")
    }
}
