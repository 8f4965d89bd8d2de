//! The only way to launch a container: plan, create, set up, verify, start.
//!
//! A plan is pure data. The container is compared with it twice: after the creation (the engine's
//! report) and when it is set up but its process does not run yet (the kernel's enforcement).

mod apparmor;
mod default_limits;
mod error;
mod exec;
mod filter;
mod image_probe;
mod kernel;
mod launcher;
mod monitor;
mod overlay;
mod own_files;
mod packets;
mod plan;
mod request;
mod run;
mod support;
mod verify;

pub use error::ContainerError;
pub(crate) use filter::write as write_filter;
pub(crate) use image_probe::ImageProbe;
pub(crate) use launcher::Injected;
pub use launcher::{
    Answer, ExecSpec, Exit, LaunchPlan, LaunchedProgram, Launcher, ProgramControl, ProgramLog,
};
pub(crate) use own_files::OwnFiles;
pub(crate) use plan::{Attachment, ContainerPlan, Detachment, Networks, PlannedNetwork};
pub(crate) use run::{Created, Handle, Running, SetUp};

#[cfg(test)]
pub(crate) use request::tests::a_plan;
pub(crate) use sandbox_podman::{Chunk, Output, Stdin};
