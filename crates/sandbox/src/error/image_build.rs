//! Errors of images.

use std::io;
use std::path::PathBuf;

use crate::container::ContainerError;
use crate::spec::Network;
use sandbox_podman::EngineError;

/// An image could not be built, found, saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageBuildError {
    /// The engine refused, failed or is unreachable.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A container that inspects an image could not be created.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The Dockerfile of a sandboxed build has an instruction that would act outside of the
    /// sandbox, or that is not supported.
    #[error("line {line} of the Dockerfile {problem}")]
    Dockerfile {
        /// Counted from 1.
        line: usize,
        /// The problem with this line.
        problem: String,
    },
    /// The build itself failed.
    #[error("failed to build image `{tag}`{}", tail(output))]
    Failed {
        /// The tag of the image.
        tag: String,
        /// The network access of its steps.
        reach: BuildReach,
        /// The last lines of its output, escaped.
        output: Vec<String>,
        /// The engine's error.
        source: EngineError,
    },
    /// A file of the build context could not be sent.
    #[error("the file `{path}` of the build context {problem}")]
    Context {
        /// Its path in the context, escaped.
        path: String,
        /// The problem with the file.
        problem: &'static str,
    },
    /// A named image does not exist.
    #[error("Image not found: the engine has no image `{name}`; build or pull it first")]
    NotFound {
        /// Its name, escaped.
        name: String,
    },
    /// A lock, or an archive of images, could not be used.
    #[error("failed to {operation} `{}`", path.display())]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// The network access of the steps of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildReach {
    /// Nothing.
    Nothing,
    /// Hosts that an allowlist permits.
    Allowed,
    /// Everything that the engine's host reaches.
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
