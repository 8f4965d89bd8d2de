//! The content codings that are known, and what they have in common.

use super::DecodeError;
use super::brotli::Brotli;
use super::deflate::Deflate;
use super::gzip::Gzip;
use super::zstd::Zstd;

/// How many codings one body may have.
pub(in crate::scrub) const MOST_CODINGS: usize = 3;

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    /// The coding that `Content-Encoding` calls so.
    pub(in crate::scrub) fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "br" => Some(Self::Brotli),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Begins to undo it.
    pub(super) fn decoder(self) -> Result<Box<dyn Decoder>, DecodeError> {
        Ok(match self {
            Self::Gzip => Box::new(Gzip::new()),
            Self::Deflate => Box::new(Deflate::new()),
            Self::Brotli => Box::new(Brotli::new()),
            Self::Zstd => Box::new(Zstd::new()?),
        })
    }
}

/// What one step of a decoder did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// So many bytes of the input are done with.
    pub(super) read: usize,
    /// So many bytes of the output are new.
    pub(super) written: usize,
}

/// Undoes one coding. What comes after the end of the data is read and dropped.
pub(super) trait Decoder: Send {
    /// Reads some of `input` and fills some of `output`. When it does neither, everything that the
    /// input decides has been written.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError>;

    /// Whether the data may end here.
    fn finish(&mut self) -> Result<(), DecodeError>;

    /// How many bytes of memory it takes.
    fn memory(&self) -> usize;
}
