//! Decoding of content codings as the bytes arrive, with bounded memory and without delay.
//!
//! A [`Chain`] decodes one body; each of its steps yields a bounded piece, so a body that decodes
//! to a thousand times its size is slowed down by its reader like any other. The memory of the
//! decoders of all bodies together is bounded by a `Reservation` that each of them holds. If data
//! is invalid, cut off or takes too much memory, the body fails: nothing is ever passed on
//! undecoded.

mod brotli;
mod chain;
mod coding;
mod deflate;
#[cfg(any(test, feature = "fuzzing"))]
mod encode;
mod error;
mod gzip;
mod reservation;
mod zstd;

pub(super) use chain::{Chain, Pulled};
pub(crate) use coding::Coding;
pub(super) use coding::MOST_CODINGS;
use coding::{Decoder, Step};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use encode::encode;
pub(super) use error::DecodeError;
