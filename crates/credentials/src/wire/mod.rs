//! The JSON of a replacement map: what sandbox and proxy say to each other, and nobody else's concern.
//!
//! Reading goes through `node`, which takes any document, because serde's own errors quote what they find where something else was
//! expected, and what they find may be a secret. `read` makes a map of it, with faults that quote nothing; `write` is the way back.

mod map;
mod node;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use map::ReplacementMap;

pub use crate::replacement::{MaskedReplacement, Replacement, SigningReplacement};
