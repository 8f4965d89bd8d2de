//! Why there is no image for a task.

use std::io;
use std::path::PathBuf;

use crate::container::ContainerError;
use crate::spec::Network;
use sandbox_podman::EngineError;

/// An image could not be built, found, saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageBuildError {
    /// The engine refused, failed or cannot be reached.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A container that looks into an image could not be made.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The Dockerfile of a sandboxed build has something that would be done outside of the sandbox,
    /// or that is not understood.
    #[error("line {line} of the Dockerfile {problem}")]
    Dockerfile {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The build itself failed.
    #[error("failed to build image `{tag}`{}", tail(output))]
    Failed {
        /// What was built.
        tag: String,
        /// What its steps could reach.
        reach: BuildReach,
        /// The last lines of its output, escaped.
        output: Vec<String>,
        /// What the engine said.
        source: EngineError,
    },
    /// A file of the build context cannot be sent.
    #[error("the file `{path}` of the build context {problem}")]
    Context {
        /// Its path in the context, escaped.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An image that was named is not there.
    #[error("Image not found: the engine has no image `{name}`; build or pull it first")]
    NotFound {
        /// Its name, escaped.
        name: String,
    },
    /// A lock, or an archive of images, cannot be used.
    #[error("failed to {operation} `{}`", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// What the steps of a build can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildReach {
    /// Nothing.
    Nothing,
    /// What an allowlist permits.
    Allowed,
    /// Whatever the engine's host reaches.
    Everything,
}

impl From<&Network> for BuildReach {
    fn from(network: &Network) -> Self {
        match network {
            Network::Disabled => Self::Nothing,
            Network::Sandboxed(_) => Self::Allowed,
            Network::Unrestricted => Self::Everything,
        }
    }
}

fn tail(output: &[String]) -> String {
    if output.is_empty() { String::new() } else { format!("; its output ends with:\n{}", output.join("\n")) }
}
