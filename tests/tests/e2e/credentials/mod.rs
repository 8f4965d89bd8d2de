//! Credentials never enter a container: real clients, real verifiers and attacks.
//!
//! Each attack has its control: the same attempt succeeds against a weakened setup.

mod clients;
mod echo;
mod foreign;
mod kept;
mod logins;
mod s3;
mod scope;
mod search;

pub(crate) use search::Needles;
