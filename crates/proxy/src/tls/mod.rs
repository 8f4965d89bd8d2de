//! TLS on both sides: leaf certificates for clients, verification of upstreams.
//!
//! Invariant: a client is shown a certificate for exactly the name it asked for, and an upstream is
//! trusted only when it verifies for the host of the request.

mod accept;
mod alert;
mod authority;
mod der;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed;
mod leaf;
mod roots;

pub(crate) use accept::{Accepted, Handshake, Refusal, server_config};
pub(crate) use alert::received_alert;
pub use authority::AuthorityError;
pub(crate) use leaf::LeafIssuer;
pub use roots::RootsError;
pub(crate) use roots::upstream_config;
