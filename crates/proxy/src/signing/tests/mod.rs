//! Signatures against the official suites, the documentation's examples, another signer, and
//! hostile input.

mod examples;
mod fixture;
mod hostile;
mod reference;
mod suite;
