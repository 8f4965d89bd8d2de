//! Why there is no image for a task.

use std::io;
use std::path::PathBuf;

use crate::container::ContainerError;
use crate::engine::EngineError;

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
    /// The build itself failed.
    #[error("failed to build `{tag}`{}", tail(output))]
    Failed {
        /// What was built.
        tag: String,
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

fn tail(output: &[String]) -> String {
    if output.is_empty() {
        String::new()
    } else {
        format!("; its output ends with:\n{}", output.join("\n"))
    }
}
