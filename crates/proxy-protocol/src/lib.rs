#![doc = include_str!("../README.md")]

mod block_reason;
mod config;
mod line;
mod message;
mod private_key;
mod record;
mod relay;

pub use allowlist::Scheme;
pub use block_reason::BlockReason;
pub use config::{HostService, Limits, Listen, ProxyAuthority, Reach, StartConfig, Upstream};
pub use line::{LineError, LineFault, from_line, to_line, to_secret_line};
pub use message::{Command, ProxyMessage};
pub use private_key::PrivateKeyPem;
pub use record::{
    DnsAnswer, Event, OpenRequest, OpenStream, PolicyChange, PolicyState, PortProtocol, Record,
    RequestOutcome, RequestRecord, StreamRecord, Tokens, Traffic, TunnelRecord, Verdict,
};
pub use relay::{RelayAnswer, RelayRequest};
pub use sandbox_credentials::wire::ReplacementMap;

/// The longest time, in milliseconds, that [`Command::Down`] can ask for: a day.
pub const LONGEST_DOWN_MS: u64 = 24 * 60 * 60 * 1000;

/// How the header `request-id` of a refusal begins; its reason follows. Clients of APIs name that
/// id in their errors, so that it is known which of them were no answer of the API.
pub const REFUSAL_ID: &str = "sandbox-blocked-";

/// The version of everything in this crate. A proxy refuses a [`StartConfig`] of any other version.
pub const PROTOCOL_VERSION: u32 = 8;
