//! Tests of signatures against the official suites, the examples of the documentation, another
//! signer, and hostile input.

mod examples;
mod fixture;
mod hostile;
mod reference;
mod suite;
