#![doc = include_str!("../README.md")]

mod archive;
mod bundle;
mod canonical;
mod changes;
mod digest;
mod entry;
mod error;
mod listing;
mod path;
mod receipt;
mod record;
mod settings;
mod snapshot;
mod unpack;

pub use bundle::{Bundle, Manifest};
pub use changes::Changes;
pub use digest::Digest;
pub use error::{InvalidBundle, PackError};
pub use listing::{Entry, Listing};
pub use path::{LinkTarget, TreePath};
pub use receipt::{Receipt, ReceiptKey, ReceiptPublicKey, RequestedHost};
pub use record::{AgentEnd, AgentSummary, Content, Ended, Measured, Omitted, Outcome, RunResult};
pub use settings::{
    AgentTask, Limits, SessionToken, Settings, SigningKey, Stall, Task, Variable, VariableName,
};
pub use snapshot::Snapshot;
