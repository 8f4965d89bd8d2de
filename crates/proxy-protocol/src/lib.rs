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

/// Maximum time of [`Command::Down`] in milliseconds: a day.
pub const LONGEST_DOWN_MS: u64 = 24 * 60 * 60 * 1000;

/// The prefix of the header `request-id` of a refusal; its reason follows. API clients report this
/// id in their errors, which shows that the answer was not from the API.
pub const REFUSAL_ID: &str = "sandbox-blocked-";

/// The version of everything in this crate. A proxy refuses a [`StartConfig`] of any other version.
pub const PROTOCOL_VERSION: u32 = 9;
