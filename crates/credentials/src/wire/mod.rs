//! The JSON of a replacement map: what sandbox and proxy say to each other, and nobody else's concern.
//!
mod map;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use map::ReplacementMap;

pub use crate::replacement::{MaskedReplacement, Replacement, SigningReplacement};
