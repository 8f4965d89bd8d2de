#![doc = include_str!("../README.md")]

mod entry;
mod error;
mod escape;
mod fold;
mod follow;
mod line;
mod ocsf;
mod reader;
mod sink;
mod timestamp;
mod watch;
mod writer;

pub use entry::{InvalidLogEntry, LogEntry};
pub use error::LogError;
pub use escape::text as escape_text;
pub use follow::LogFollower;
pub use line::url as url_text;
pub use reader::{LogEntries, NetworkLog};
pub use sink::{LogSink, RecordCallback};

/// The name of the text log in its folder.
const TEXT_NAME: &str = "network-sandbox.log";
/// The name of the JSON log in its folder.
const JSON_NAME: &str = "network-sandbox.jsonl";
