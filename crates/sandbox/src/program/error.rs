//! Errors of programs for containers.

use std::io;
use std::path::PathBuf;

/// A static program that containers run is missing or unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There is no program that containers could run. `cargo xtask proxy-image` in a checkout
    /// builds them; they belong next to the running program, or in
    /// [`SandboxConfig::proxy_dir`](crate::SandboxConfig::proxy_dir).
    #[error("no usable {name}: {problem}")]
    Unusable {
        /// Its name, which is also that of its crate.
        name: &'static str,
        /// The searched paths, and the problem.
        problem: String,
    },
    /// The program could not be copied to a path that the engine sees.
    #[error("failed to write `{}`", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
