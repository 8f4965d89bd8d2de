//! A stand-in for the Anthropic Messages API, good enough for the real Claude Code program.
//!
//! [`Script::answer`] is plain data in and plain data out: it opens no socket, so any server can
//! carry it (the TLS origin of the end-to-end tests does). What it answers is a [`Scenario`], which
//! the newest prompt names with a word such as `scenario:rate-limit`; without one it replies with a
//! text that says how many prompts it was sent and quotes them, so that a test sees whether a
//! resumed session carried its history along. [`serve`] is the smallest HTTP server for it.

mod conversation;
mod exchange;
mod failure;
mod message;
mod scenario;
mod script;
mod serve;

pub use conversation::Conversation;
pub use exchange::ApiRequest;
pub use exchange::ApiResponse;
pub use exchange::Step;
pub use failure::FAILURES;
pub use failure::Failure;
pub use scenario::Scenario;
pub use scenario::UnknownScenario;
pub use script::Script;
pub use serve::serve;
