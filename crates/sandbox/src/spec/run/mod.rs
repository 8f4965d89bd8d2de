//! The specification of a detached run.

mod annotation;
mod gpu;
mod name;
mod render;
mod rules;
mod run_spec;
mod volume;

pub use annotation::AnnotationKey;
pub use gpu::{GpuRequest, GpuVendor};
pub use name::RunName;
pub use run_spec::RunSpec;
pub use volume::{Sharing, VolumeSpec};
