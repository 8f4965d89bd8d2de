//! Construction-time configuration: where the engine is, and what the sandbox keeps where.

mod address;
mod options;

pub use address::{EngineAddress, InvalidConfig};
pub use options::{SandboxConfig, UpstreamConfig};
