//! Compares the engine's container with the plan: podman silently ignores fields, and which ones
//! depends on its version.
//!
//! Each module compares one aspect of a container. The engine's report is compared after the
//! creation and again, with the kernel's enforcement, when the container is set up.

mod confinement;
#[cfg(test)]
mod copies;
mod difference;
#[cfg(test)]
mod fixture;
mod in_memory;
mod limits;
#[cfg(test)]
mod logs;
mod mounts;
mod network;
mod process;
mod stages;

pub(super) use process::command_line;
pub(super) use stages::{attached, created, has_own_kernel};
