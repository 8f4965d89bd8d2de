//! Errors of a container before its process runs.

use std::io;
use std::path::PathBuf;

use crate::spec::InvalidSpec;
use sandbox_podman::EngineError;

/// A container could not be launched, or is not what was requested. It has been removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The engine refused, failed or is unreachable.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The created container differs from the plan.
    #[error("container `{container}` is not as planned, so it was removed: {}", differences.join("; "))]
    NotAsPlanned {
        /// Its name.
        container: String,
        /// The differences, each with the planned and the actual value.
        differences: Vec<String>,
    },
    /// The image does not exist.
    #[error("Image not found: the engine has no image `{image}`")]
    NoImage {
        /// Its name.
        image: String,
    },
    /// The source of a mount is not accessible.
    #[error("failed to find the source `{}` of a mount", path.display())]
    MountSource {
        /// The path on the host.
        path: PathBuf,
        /// The cause.
        source: InvalidSpec,
    },
    /// A file with the container's host name or name server could not be written.
    #[error("failed to write `{}`", path.display())]
    OwnFile {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file of the sandbox that the container needs could not be written.
    #[error("failed to write `{}`", path.display())]
    SandboxFile {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// This engine does not support the specification. Podman itself often ignores such settings
    /// silently.
    #[error("{field}: {engine} {problem}; {hint}")]
    Unsupported {
        /// The field of the specification.
        field: &'static str,
        /// The engine and its version.
        engine: String,
        /// The engine's behaviour.
        problem: String,
        /// The fix.
        hint: String,
    },
    /// The confinement that the kernel enforces for the container cannot be read.
    #[error(
        "failed to verify the confinement of container `{container}`: {problem}; the sandbox must run in the process namespace of \
         its engine"
    )]
    Unverifiable {
        /// Its name.
        container: String,
        /// The facts that could not be read.
        problem: String,
    },
    /// The kernel would let the container send packets past its proxy.
    #[error("failed to install the packet filter of container `{container}`: {problem}")]
    Unfiltered {
        /// Its name.
        container: String,
        /// The cause and the fix.
        problem: String,
    },
    /// The image lacks the program: exit code 127 of a shell.
    #[error("no program `{program}` in the image")]
    ProgramNotFound {
        /// The program.
        program: String,
    },
    /// The image has the program, but it cannot be executed: exit code 126 of a shell.
    #[error("`{program}` in the image cannot be executed")]
    ProgramNotExecutable {
        /// The program.
        program: String,
    },
}
