//! The kernel confines the proxy to the addresses that it has to reach, even if the program is
//! taken over.
//!
//! The address guard is part of the very program that an attacker would take over. So the container
//! starts with the right to configure its own network. Before the program reads any input, it gives
//! the kernel a filter for outgoing packets ([`confine()`]) and gives up the right
//! ([`give_up_rights()`]). A filter is used instead of routes, because a socket that is bound to an
//! interface reaches its neighbours, and through them the host, despite any route.

mod confine;
mod interfaces;
mod refusals;
mod rights;
mod rules;

pub use confine::{Confined, Unconfined, confine};
pub(crate) use interfaces::own_addresses;
pub(crate) use refusals::Refusals;
pub use rights::give_up_rights;
