//! Several commands in one container, or one container for each: the executor.
//!
//! `session` is a container whose first process is the supervisor (see the crate `sandbox-inside`);
//! `router` separates its output by command; `execute` runs one command on it; `teardown` removes
//! containers and keeps tampered paths; `config` and `command` are the input of a caller, `result`
//! the output; `guide.md` is for users of another executor.

mod command;
mod config;
mod execute;
mod feed;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
mod result;
mod router;
mod session;
mod teardown;

pub use command::{ExecCommand, ExecOptions};
pub use config::{ExecutorConfig, ExecutorMode, Workspace};
pub use execute::Executor;
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzed::supervisor_frames;
pub use result::ExecResult;

pub use crate::error::ExecutorError;
pub use sandbox_inside::ExceededLimit;
