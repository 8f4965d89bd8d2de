//! The engine: the only module that names bollard.
//!
//! Calls go through podman's Docker-compatible API where it can carry them; `libpod` makes those for which that API has no answer, or a
//! wrong one: networks, the creation of containers, inspections and waits.
//! Every call has a deadline, except those that end when a container does.

mod archive;
mod attach;
mod bridge;
mod build;
mod capabilities;
mod connection;
mod container;
mod convert;
mod disk_limits;
mod error;
mod facts;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
mod image;
mod inspection;
mod libpod;
mod logs;
mod network;
#[cfg(test)]
mod scripted;
mod ulimits;
mod upload;

pub(crate) use attach::{Chunk, Output, Stdin};
pub(crate) use build::{BuildNetwork, BuildRequest};
pub use capabilities::{Capabilities, Version};
pub(crate) use connection::Engine;
pub(crate) use container::{ContainerId, ContainerSummary};
#[cfg(test)]
pub(crate) use convert::tests::a_plan;
pub use disk_limits::DiskLimits;
pub use error::EngineError;
pub use facts::EngineFacts;
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzed::engine_answer;
pub(crate) use image::{ImageFacts, ImageSummary};
pub(crate) use inspection::{BindFacts, Inspection, MountFacts, SignalFact, State as ContainerState};
pub(crate) use network::NetworkPlan;
pub(crate) use upload::{Owner, PathFacts};
