//! A name server, an origin that speaks everything, and sinks that count what arrives.
//!
//! Every name resolves to the origin, but for the few that the name server lists; the origin shows
//! a certificate of a [`TestAuthority`] for whatever name it is asked for. In the end-to-end tests
//! all of it lives in the tests' own network namespace, at addresses that only the engine's
//! namespace can reach.

mod apt;
mod archive;
mod backend;
mod ca;
mod cargo;
mod control;
mod dns;
mod git;
mod go;
mod lock;
mod mirror;
mod npm;
mod origin;
mod python;
mod routes;
mod running;
mod sinks;
mod websocket;

use std::net::Ipv4Addr;

pub use backend::Backend;
pub use ca::TestAuthority;
pub use control::World;
pub use lock::Lock;
pub use routes::Seen;
pub use running::WorldServer;
pub use sinks::{IcmpSink, UdpSink};

/// The address of the name server and of the origin in the end-to-end tests.
pub const ORIGIN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);
/// An address at which nothing listens.
pub const UNUSED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 11);
/// An address for sinks.
pub const SINK: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 12);
