//! The server and its mirrors, with git itself as client and upstream.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]
#![expect(clippy::disallowed_methods, reason = "git is what is tested; no engine is involved")]

mod fixture;
mod mirror;
mod server;
