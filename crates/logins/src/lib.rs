#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Only one process refreshes a login at a time, and a process that waited for it uses its
//!   result: a refresh token is used once.
//! - An attempt is recorded on disk before it is made, and new tokens are on disk before they are
//!   used.
//! - A refresh token that was refused is not sent again.
//! - No error and no `Debug` of this crate shows a token.

mod answer;
mod document;
mod endpoint;
mod error;
mod github_app;
mod kind;
mod login;
mod record;
mod task_file;
mod vendor_lock;

pub use answer::{Answer, Unanswered};
pub use document::Tokens;
pub use endpoint::{Endpoint, HttpsEndpoint, InvalidTokenUrl, TokenRequest, TokenUrl};
pub use error::LoginError;
pub use github_app::{GitHubApp, GitHubAppError};
pub use kind::LoginKind;
pub use login::{Login, MARGIN};
