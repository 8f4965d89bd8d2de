//! DNS: the answers to the task, and the proxy's own lookups after the gate has permitted a
//! request.
//!
//! The two are separate: [`DnsSockets`] answers the task with a pure function and forwards nothing;
//! [`Resolver`] asks the configured name server for the hosts of permitted requests, and
//! [`AddressGuard`] judges the addresses that it finds.

mod exchange;
#[cfg(test)]
mod fake_server;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed;
mod guard;
mod lookup;
mod message;
mod rate;
mod resolver;
mod responder;
mod response;
mod server;

pub(crate) use guard::{AddressGuard, REFUSED_V4};
pub(crate) use resolver::Resolver;
pub(crate) use server::DnsSockets;
