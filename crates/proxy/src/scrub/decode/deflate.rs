//! `deflate`: the zlib format, or raw deflate data, which many servers send under this name.

use flate2::{Decompress, FlushDecompress, Status};

use super::{DecodeError, Decoder, Step};

const CODING: &str = "deflate";
/// The memory of a stream: the window, the tables and the rest.
pub(super) const MEMORY: usize = 48 * 1024;

/// Decoder for `deflate`.
pub(super) enum Deflate {
    /// The first two bytes show which of the two formats it is.
    Begin {
        first: Option<u8>,
    },
    Open(Inflate),
    Ended,
}

impl Deflate {
    /// Creates a decoder that has read nothing.
    pub(super) fn new() -> Self {
        Self::Begin { first: None }
    }
}

impl Decoder for Deflate {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        match self {
            Self::Begin { first } => {
                let Some(byte) = input.first() else {
                    return Ok(Step { read: 0, written: 0 });
                };
                let Some(first) = *first else {
                    *first = Some(*byte);
                    return Ok(Step { read: 1, written: 0 });
                };
                let written = self.open([first, *byte], output)?;
                Ok(Step { read: 1, written })
            }
            Self::Open(inflate) => {
                let (step, ended) = inflate.step(input, output, CODING)?;
                if ended {
                    *self = Self::Ended;
                }
                Ok(step)
            }
            Self::Ended => Ok(Step { read: input.len(), written: 0 }),
        }
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        match self {
            Self::Begin { first: None } | Self::Ended => Ok(()),
            _ => Err(DecodeError::CutOff { coding: CODING }),
        }
    }

    fn memory(&self) -> usize {
        MEMORY
    }
}

impl Deflate {
    fn open(&mut self, first: [u8; 2], output: &mut [u8]) -> Result<usize, DecodeError> {
        let [method, _] = first;
        let zlib = method & 0x8f == 0x08 && u16::from_be_bytes(first).is_multiple_of(31);
        let mut inflate = Inflate::new(zlib);
        let (step, ended) = inflate.step(&first, output, CODING)?;
        *self = if ended { Self::Ended } else { Self::Open(inflate) };
        Ok(step.written)
    }
}

/// Decoder for the compression that `deflate` and `gzip` share.
pub(super) struct Inflate(Decompress);

impl Inflate {
    /// Creates a decoder for data with or without the zlib wrapper.
    pub(super) fn new(zlib: bool) -> Self {
        Self(Decompress::new(zlib))
    }

    /// Takes one step, and returns whether the data ended with it.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        coding: &'static str,
    ) -> Result<(Step, bool), DecodeError> {
        let (read, written) = (self.0.total_in(), self.0.total_out());
        let invalid = DecodeError::Invalid { coding };
        let status = self.0.decompress(input, output, FlushDecompress::None).map_err(|_| invalid)?;
        let since = |total: u64, before: u64| usize::try_from(total - before).map_err(|_| invalid);
        let step =
            Step { read: since(self.0.total_in(), read)?, written: since(self.0.total_out(), written)? };
        Ok((step, status == Status::StreamEnd))
    }
}
