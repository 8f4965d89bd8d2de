//! The proxy from the view of its clients and its owner: real sockets on loopback, an upstream and
//! a name server in this process.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected has failed"
)]

/// Like `assert!`, for containment: `$condition` is false only where an attack succeeded. The test
/// runner recognizes such a failure by its prefix.
macro_rules! assert_held {
    ($condition:expr, $($message:tt)+) => {
        assert!($condition, "breach: {}", format_args!($($message)+))
    };
}

mod abuse;
mod as_received;
mod budget;
mod credentials;
mod floods;
mod forwarding;
mod harness;
mod identity;
mod limits;
mod memory;
mod order;
mod policy;
mod pushes;
mod questions;
mod reflected;
mod services;
mod signing;
mod streaming;
mod tls;
mod upgrade;
mod vendor;
mod wire;
