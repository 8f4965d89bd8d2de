//! Configuration of a sandbox: the engine's address and the state's location.

mod address;
mod options;

pub use address::{EngineAddress, InvalidConfig};
pub use options::{SandboxConfig, UpstreamConfig};
