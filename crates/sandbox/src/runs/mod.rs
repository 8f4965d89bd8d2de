//! Containers that go on without us: created, filled, started, watched and stopped one verb at a
//! time. [`Runs`] says all about them.

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
