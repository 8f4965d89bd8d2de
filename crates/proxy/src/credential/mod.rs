//! Credentials: surrogates are replaced with real values in outgoing requests, and foreign
//! credentials are removed.
//!
//! The container holds only surrogates. [`Vault`] knows their real values, and creates one [`Plan`]
//! for each permitted request from its head alone, in a fixed order: surrogates in headers are
//! replaced, an AWS signature is claimed, foreign credentials are removed, and the signature is
//! recomputed over the result. So a request with several credentials gets all of them.
//!
//! Invariants: a real value is sent only to a host in its scope, in a header that its entry covers,
//! in place of one whole credential that equals the surrogate, and over plain HTTP only if its
//! entry allows that. A request is sent with everything replaced or not at all. No `Debug` output,
//! error or record contains a real value.

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
