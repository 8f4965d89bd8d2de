//! End-to-end tests: real podman, the real proxy, real clients.
//!
//! `cargo xtask e2e` runs them. It creates two network namespaces: the engine's *host*, and the
//! *world*, in which the tests run and [`world`] starts servers. [`fixture`] is the sandbox of a
//! test, [`engine`] accesses the engine without the sandbox (for controls, which show what a
//! weakened setup permits), and [`host`] starts listeners on the engine's host. [`secret`] creates
//! values that a task must not see, and [`s3`] runs a third-party server that verifies signatures.

mod breach;
pub mod engine;
pub mod fixture;
pub mod host;
pub mod s3;
pub mod secret;
pub mod setting;

use std::time::Duration;

pub use test_world::{layouts, messages_api, world};

/// Far longer than any expected event takes, even on a busy machine. A wait of this length means a
/// bug.
pub const DEADLINE: Duration = Duration::from_mins(5);
