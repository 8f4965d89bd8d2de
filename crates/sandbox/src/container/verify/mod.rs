//! Compares what the engine made with the plan: podman's Docker-compatible API ignores fields
//! silently, and which ones depends on its version.
//!
//! Each module compares one side of a container. What the engine wrote down is compared after the
//! creation and again, with what the kernel enforces, when the container is set up.

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
