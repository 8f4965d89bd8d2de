//! The supported content codings, and their common interface.

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
    /// The coding that `Content-Encoding` calls `name`.
    pub(in crate::scrub) fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "br" => Some(Self::Brotli),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Creates a decoder for it.
    pub(super) fn decoder(self) -> Result<Box<dyn Decoder>, DecodeError> {
        Ok(match self {
            Self::Gzip => Box::new(Gzip::new()),
            Self::Deflate => Box::new(Deflate::new()),
            Self::Brotli => Box::new(Brotli::new()),
            Self::Zstd => Box::new(Zstd::new()?),
        })
    }
}

/// The progress of one step of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// The number of bytes of the input consumed.
    pub(super) read: usize,
    /// The number of bytes of the output written.
    pub(super) written: usize,
}

/// Decodes one coding. Bytes after the end of the data are read and dropped, or refused (zstd).
pub(super) trait Decoder: Send {
    /// Reads some of `input` and fills some of `output`. When it does neither, everything that the
    /// input so far determines has been written.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError>;

    /// Checks that the data may end here.
    fn finish(&mut self) -> Result<(), DecodeError>;

    /// Its memory in bytes.
    fn memory(&self) -> usize;
}
