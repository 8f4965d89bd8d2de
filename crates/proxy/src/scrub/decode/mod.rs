//! Undoing content codings as the bytes come, with bounded memory and without delay.
//!
//! A [`Chain`] undoes the codings of one body; each step of it gives a bounded piece, so that a
//! body which decodes to a thousand times its size is slowed down by its reader like any other.
//! What the decoders of all bodies together may take is bounded by a `Reservation` that each of
//! them keeps. Where data is invalid, cut off or takes too much, the body fails: nothing is ever
//! passed on undecoded.

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
