#![doc = include_str!("../README.md")]

mod archive;
mod attach;
mod bridge;
mod build;
mod capabilities;
mod connection;
mod container;
mod disk_limits;
mod error;
mod exec;
mod facts;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod image;
mod image_facts;
mod inspection;
mod libpod;
mod logs;
mod network;
#[cfg(test)]
mod scripted;
mod service;
mod terminal;
mod upload;

pub use archive::first_file;
pub use attach::{Chunk, Output, Stdin};
pub use build::{BuildNetwork, BuildRequest};
pub use capabilities::{Capabilities, Version};
pub use connection::Engine;
pub use container::{ContainerId, ContainerSummary};
pub use disk_limits::DiskLimits;
pub use error::EngineError;
pub use exec::ExecState;
pub use facts::EngineFacts;
pub use image::ImageSummary;
pub use image_facts::ImageFacts;
pub use inspection::{
    BindFacts, ConfigFacts, ContainerState, DeviceFacts, IdMappings, Inspection, LimitFacts, LogFacts,
    MountFacts, NetworkFacts, NetworkSettings, SignalFact,
};
pub use network::{NetworkRequest, NetworkSummary};
pub use terminal::TerminalSize;
pub use upload::{Owner, PathFacts};
