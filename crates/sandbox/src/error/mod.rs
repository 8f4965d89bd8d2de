//! Errors of the sandbox itself, one type for each of its parts. The failure of a task is an
//! outcome, not an error.

mod executor;
mod image_build;
mod run;
mod sandbox_error;
mod verify;

pub use executor::ExecutorError;
pub use image_build::{BuildReach, ImageBuildError};
pub use run::{HookError, HookStage, RunError};
pub use sandbox_error::SandboxError;
pub use verify::VerifyError;
