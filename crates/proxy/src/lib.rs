//! The egress proxy of a sandboxed task: the only path from the task's network to the internet.
//!
//! It answers every DNS query with its own address, terminates the resulting TLS connections with
//! certificates of the task's own authority, checks each request against the allowlist, forwards
//! permitted requests to a verified upstream, and records everything.
//!
//! A proxy serves one task and is driven over one channel ([`run()`]): it reads the start document
//! and writes the ready message, then it writes records and reads commands. It ends when the
//! channel ends. [`sandbox_proxy_protocol`] defines the messages.
//!
//! ```
//! use sandbox_proxy_protocol::{ProxyMessage, from_line};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The proxy reports a start document of an unknown version, and ends.
//! let (output, mut owner) = tokio::io::duplex(4096);
//! let ended = sandbox_proxy::run(&b"{\"protocol\": 0}\n"[..], output).await;
//! assert!(ended.is_err());
//!
//! let mut line = String::new();
//! tokio::io::AsyncReadExt::read_to_string(&mut owner, &mut line).await?;
//! assert!(matches!(from_line(line.as_bytes())?, ProxyMessage::Failed { .. }));
//! # Ok(())
//! # }
//! ```

mod accounting;
mod context;
mod control;
mod credential;
mod dns;
mod fields;
#[cfg(feature = "forced-panic")]
mod forced_panic;
mod frames;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod git;
mod headers;
mod http;
mod policy;
mod reach;
mod record;
mod run;
mod scrub;
mod server;
mod services;
mod signing;
mod stream;
mod tls;
mod upload;
mod upstream;

pub use control::{Column, ControlError};
pub use reach::{Confined, Unconfined, confine, give_up_rights};
pub use run::{ProxyError, run, run_until};
pub use tls::{AuthorityError, RootsError};
