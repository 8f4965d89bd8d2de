//! What the sandbox and its egress proxy say to each other.
//!
//! The channel is the proxy's stdio: the sandbox writes one [`StartConfig`] as a line of JSON on the proxy's stdin, the proxy
//! binds its sockets and answers with one [`ProxyMessage::Ready`] line on stdout. From then on the proxy streams
//! [`ProxyMessage::Record`] lines out, and the sandbox may send [`Command`] lines in. When stdin ends, the proxy ends: there is no
//! egress without an owner. Nothing secret ever touches a disk, an argument list or an environment.
//!
//! This crate does no I/O: it owns the types and their one-line form ([`to_line`], [`to_secret_line`], [`from_line`]), nothing else.
//!
//! ```
//! use sandbox_proxy_protocol::{Command, from_line, to_line};
//!
//! let line = to_line(&Command::Quarantine {})?;
//! assert_eq!(line, "{\"command\":\"quarantine\"}\n");
//! assert!(matches!(from_line(line.as_bytes())?, Command::Quarantine {}));
//! # Ok::<(), sandbox_proxy_protocol::LineError>(())
//! ```

mod block_reason;
mod config;
mod line;
mod message;
mod private_key;
mod record;

pub use allowlist::Scheme;
pub use block_reason::BlockReason;
pub use config::{Limits, Listen, ProxyAuthority, StartConfig, Upstream};
pub use line::{LineError, LineFault, from_line, to_line, to_secret_line};
pub use message::{Command, ProxyMessage};
pub use private_key::PrivateKeyPem;
pub use record::{DnsAnswer, Event, OpenRequest, Record, RequestOutcome, RequestRecord, TunnelRecord};
pub use sandbox_credentials::wire::ReplacementMap;

/// The version of everything in this crate. A proxy refuses a [`StartConfig`] of any other version.
pub const PROTOCOL_VERSION: u32 = 3;
