//! The kernel holds the proxy to what it has to reach, whatever becomes of the program.
//!
//! The address guard is code of the very program that an attacker would take over. So the container
//! begins with the right to set its own network up; before the program reads anything it gives the
//! kernel a filter for what leaves ([`confine()`]), and gives the right up ([`give_up_rights()`]).
//! A filter and not routes: a socket that is bound to an interface reaches its neighbours, and
//! through them the host, in spite of any route.

mod confine;
mod interfaces;
mod refusals;
mod rights;
mod rules;

pub use confine::{Confined, Unconfined, confine};
pub(crate) use interfaces::own_addresses;
pub(crate) use refusals::Refusals;
pub use rights::give_up_rights;
