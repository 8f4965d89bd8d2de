//! Why a program for containers cannot be used.

use std::io;
use std::path::PathBuf;

/// A static program that containers run is missing, or cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There is no program that containers could run. `cargo xtask proxy-image` in a checkout
    /// builds them; they belong beside the running program, or in
    /// [`SandboxConfig::proxy_dir`](crate::SandboxConfig::proxy_dir).
    #[error("no usable {name}: {problem}")]
    Unusable {
        /// Its name, which is also that of its crate.
        name: &'static str,
        /// Where it was looked for, and what is wrong with it.
        problem: String,
    },
    /// The program cannot be copied to where the engine sees it.
    #[error("failed to write `{}`", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
