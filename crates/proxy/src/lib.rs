//! The egress proxy of a sandboxed task: the only way from the task's network to the world.
//!
//! It answers every DNS query with its own address, ends the TLS that then arrives with
//! certificates of the task's own authority, asks the allowlist about each request, forwards what
//! is permitted to a verified upstream, and records everything.
//!
//! A proxy serves one task and is driven over one channel ([`run()`]): the start document comes in,
//! the ready message goes out, then records out and commands in. When the channel ends, so does the
//! proxy. The messages are those of [`sandbox_proxy_protocol`].
//!
//! ```
//! use sandbox_proxy_protocol::{ProxyMessage, from_line};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A document of a version that this proxy does not know: it says so and ends.
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
