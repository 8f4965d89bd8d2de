//! Containers that outlive this process: created, filled, started, watched and stopped step by
//! step. [`Runs`] has the documentation.

mod copy;
mod found;
mod hooks;
mod launch;
mod output;
mod plan;
mod registry;
mod stop;
mod task_dir;
mod verbs;

pub use hooks::LifecycleHooks;
pub use output::{READY_MARKER, Readiness};
pub(crate) use registry::Registry;
pub use stop::StopResult;
pub use verbs::Runs;

pub use crate::container::Exit as RunExit;
pub use crate::error::{HookError, HookStage, RunError};
pub use crate::spec::{AnnotationKey, GpuRequest, GpuVendor, RunName, RunSpec, Sharing, VolumeSpec};
