//! AWS signatures: reading the one that a request carries, and recomputing it with the real key.
//!
//! [`claim`] finds the signature of a request. If it was made with a surrogate key, [`resign`]
//! recomputes it from the request as it will be sent; if with any other key, [`without_signature`]
//! removes it. Bodies that are signed piece by piece pass through a [`ChunkSigner`]. Everything
//! here is a pure function of its arguments: no clock, no input, no output.
//!
//! Invariant: a request leaves with every part of the credential replaced, or not at all. Key id
//! and session token are replaced before the canonical request is built, so that what is signed is
//! what is sent.

mod algorithm;
mod authorization;
mod canonical;
mod chain;
mod chunk_head;
mod chunks;
mod claim;
mod draft;
mod encoding;
mod error;
mod key;
mod payload;
mod presigned;
mod resign;
mod rules;
mod scope;
mod strip;
mod target;
mod timestamp;
mod token;
mod trailers;

pub(crate) use chunks::{ChunkSigner, MAX_CHUNK};
pub(crate) use claim::{Carrier, Claim, claim};
pub(crate) use draft::{Request, Signed};
pub(crate) use error::{ChunkError, SignError};
pub(crate) use resign::{Pending, Resigned, resign};
pub(crate) use strip::{has_token, without_signature};

#[cfg(test)]
mod tests;
