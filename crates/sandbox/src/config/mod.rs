//! Construction-time configuration: where the engine is, and what the sandbox keeps where.

mod address;
mod options;

pub use address::EngineAddress;
pub use options::{InvalidConfig, SandboxConfig, UpstreamConfig};
