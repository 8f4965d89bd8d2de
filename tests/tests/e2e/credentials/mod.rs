//! Credentials never enter a container: real clients, real verifiers, and what an attacker would
//! try.
//!
//! Each attack has its control: the same attempt against a weakened set-up succeeds.

mod clients;
mod echo;
mod foreign;
mod kept;
mod logins;
mod s3;
mod scope;
mod search;
