//! What can go wrong with a container before its process runs.

use std::io;
use std::path::PathBuf;

use crate::spec::InvalidSpec;
use sandbox_podman::EngineError;

/// A container could not be launched, or is not what was asked for. It has been removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The engine refused, failed or cannot be reached.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine made something else than what was planned.
    #[error("container `{container}` is not as planned, so it was removed: {}", differences.join("; "))]
    NotAsPlanned {
        /// Its name.
        container: String,
        /// What differs, each with what was planned and what is.
        differences: Vec<String>,
    },
    /// The image is not there.
    #[error("Image not found: the engine has no image `{image}`")]
    NoImage {
        /// Its name.
        image: String,
    },
    /// What is to be mounted cannot be reached.
    #[error("failed to find `{}`, which is to be mounted", path.display())]
    MountSource {
        /// The host's path.
        path: PathBuf,
        /// Why.
        source: InvalidSpec,
    },
    /// A file that gives the container its name or its name server cannot be written.
    #[error("failed to write `{}`", path.display())]
    OwnFile {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the sandbox's own that the container needs cannot be written.
    #[error("failed to write `{}`", path.display())]
    SandboxFile {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// This engine cannot do what the specification asks for. Podman itself often says nothing of
    /// it and leaves it out.
    #[error("{field}: {engine} {problem}; {hint}")]
    Unsupported {
        /// The field of the specification.
        field: &'static str,
        /// The engine and its version.
        engine: String,
        /// What it does instead.
        problem: String,
        /// What to do about it.
        hint: String,
    },
    /// What the kernel enforces for the container cannot be read.
    #[error(
        "cannot verify the confinement of container `{container}`: {problem}; the sandbox must run in the process namespace of \
         its engine"
    )]
    Unverifiable {
        /// Its name.
        container: String,
        /// What could not be read.
        problem: String,
    },
    /// The kernel would let the container send packets past its proxy.
    #[error("failed to install the packet filter of container `{container}`: {problem}")]
    Unfiltered {
        /// Its name.
        container: String,
        /// Why, and what to do about it.
        problem: String,
    },
    /// The image lacks the program. A shell calls this 127.
    #[error("no program `{program}` in the image")]
    ProgramNotFound {
        /// The program.
        program: String,
    },
    /// The image has the program, and it cannot be executed. A shell calls this 126.
    #[error("`{program}` cannot be executed in the image")]
    ProgramNotExecutable {
        /// The program.
        program: String,
    },
}
