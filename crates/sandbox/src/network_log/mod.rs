//! The network log of a task: `network-sandbox.log` for people, `network-sandbox.jsonl` for programs.
//!
//! Only the host writes it, from the proxy's records; both files are appended to, never rewritten. What came from the container
//! cannot forge a line (see `line`), and cannot push out what it was permitted (see `fold` and `writer`). Reading is in [`NetworkLog`], following in [`LogFollower`].

mod entry;
mod error;
mod escape;
mod fold;
mod follow;
mod line;
mod reader;
mod sink;
mod timestamp;
mod watch;
mod writer;

pub use entry::{InvalidLogEntry, LogEntry};
pub(crate) use error::LogError;
pub(crate) use escape::text as escape_text;
pub use follow::LogFollower;
pub(crate) use line::url as url_text;
pub use reader::{LogEntries, NetworkLog};
pub(crate) use sink::{LogSink, RecordCallback};

/// The name of the text log in its folder.
const TEXT_NAME: &str = "network-sandbox.log";
/// The name of the JSON log in its folder.
const JSON_NAME: &str = "network-sandbox.jsonl";
