//! End-to-end tests: real podman, the real proxy, real clients.
//!
//! `cargo xtask e2e` runs them. It makes two network namespaces: the engine's *host*, and the
//! *world*, in which the tests run and which [`world`] fills with servers. [`fixture`] gives a test
//! its sandbox, [`engine`] speaks to the engine behind the sandbox's back (for controls: what a
//! weakened set-up lets through), [`host`] puts listeners on the engine's host. [`secret`] makes
//! what a task must not see, [`s3`] is a server that we did not write and that verifies signatures.

mod breach;
pub mod engine;
pub mod fixture;
pub mod host;
pub mod s3;
pub mod secret;
pub mod setting;

use std::time::Duration;

pub use test_world::{layouts, messages_api, world};

/// Far longer than anything takes that must happen, also on a machine that is busy with other
/// things. Whoever waits so long has found a fault.
pub const DEADLINE: Duration = Duration::from_mins(5);
