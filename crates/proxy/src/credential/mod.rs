//! Credentials: surrogates become real values on the way out, and foreign credentials are removed.
//!
//! The container holds surrogates only. [`Vault`] knows what takes their place, and makes one
//! [`Plan`] for each permitted request from its head alone, in one order: what headers carry is
//! replaced, an AWS signature is claimed, foreign credentials are removed, and the signature is
//! recomputed over what is then there. So a request with several credentials gets all of them.
//!
//! Invariants: a real value goes only to a host in its scope, in a header that its entry names, in
//! the place of one whole credential that equals the surrogate, and over plain HTTP only if its
//! entry says so. A request is sent with everything replaced or not at all. No real value is in a
//! `Debug` output, an error or a record.

mod claimed;
mod clock_skew;
mod entry;
mod error;
mod find;
mod key;
mod plan;
mod replace;
mod scope;
mod vault;

#[cfg(test)]
mod tests;

pub(crate) use claimed::hide;
pub(crate) use error::CredentialError;
pub(crate) use plan::{BodyPlan, Plan, Wire};
pub(crate) use vault::Vault;
