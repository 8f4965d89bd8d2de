//! Typed reader of what headless Claude Code prints with `--output-format stream-json --verbose`.
//!
//! Claude Code prints one JSON object a line. [`EventParser`] turns bytes, in whatever pieces a pipe delivers them,
//! into [`ParsedLine`]s; each JSON object becomes a [`StreamEvent`], which keeps the object whole beside a typed
//! [`EventKind`]. Nothing is ever refused: an event of a kind that this crate does not know is
//! [`EventKind::Unknown`], a content block likewise, and a line that is no JSON object is [`ParsedLine::Text`].
//!
//! From a run's events, [`extract_response_text`] takes the reply, [`extract_result_summary`] what the run cost and how
//! it ended, [`extract_session_id`] the id to resume with, and [`extract_error_summary`] what to report about a failure.
//!
//! Three rules hold everywhere: `null` counts as absent; a field of the wrong type makes the block that it is in
//! unknown, outside a block the event; and what is unknown is kept whole.
//!
//! The crate does no I/O and knows no clock.
//!
//! # Example
//!
//! ```
//! use claude_output::EventParser;
//! use claude_output::ParsedLine;
//! use claude_output::extract_response_text;
//! use claude_output::extract_result_summary;
//!
//! let output = br#"{"type":"system","subtype":"init","session_id":"7a1c"}
//! {"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"Hello."}]},"session_id":"7a1c"}
//! {"type":"result","subtype":"success","is_error":false,"result":"Hello.","num_turns":1,"session_id":"7a1c"}
//! "#;
//!
//! let mut parser = EventParser::new();
//! let mut events = Vec::new();
//! for piece in output.chunks(16) {
//!     for line in parser.push(piece) {
//!         if let ParsedLine::Event(event) = line {
//!             events.push(event);
//!         }
//!     }
//! }
//! assert!(parser.finish().is_none(), "the last line was complete");
//!
//! assert_eq!(extract_response_text(&events), "Hello.");
//! let summary = extract_result_summary(&events).expect("the run has ended");
//! assert_eq!(summary.num_turns, 1);
//! assert!(summary.error.is_none());
//! ```

mod block;
mod error_summary;
mod event;
mod fields;
mod message;
mod parser;
mod response_text;
mod result;
mod session_id;
mod summary;
mod system;
mod usage;

pub use block::ContentBlock;
pub use block::ToolResult;
pub use block::ToolResultContent;
pub use block::ToolUse;
pub use error_summary::extract_error_summary;
pub use event::EventKind;
pub use event::LimitUnit;
pub use event::ParseEventError;
pub use event::StreamEvent;
pub use event::TruncatedLine;
pub use event::parse_event;
pub use message::MessageEvent;
pub use parser::DEFAULT_LINE_LIMIT;
pub use parser::EventParser;
pub use parser::ParsedLine;
pub use parser::VALUE_LIMIT;
pub use response_text::extract_response_text;
pub use result::ResultEvent;
pub use session_id::extract_session_id;
pub use summary::ResultError;
pub use summary::ResultSummary;
pub use summary::extract_result_summary;
pub use system::SystemEvent;
pub use system::SystemInit;
pub use usage::Usage;
