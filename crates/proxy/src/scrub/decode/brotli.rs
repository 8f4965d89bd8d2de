//! `br` (RFC 7932), with the windows that this RFC defines: up to 16 MiB.

use brotli_decompressor::{
    BrotliDecompressStream, BrotliResult, BrotliState, HuffmanCode, SliceWrapper, StandardAlloc,
};

use super::{DecodeError, Decoder, Step};

const CODING: &str = "brotli";
/// The memory of a stream in addition to its window and its codes.
const BASE: usize = 64 * 1024;

/// Decoder for `br`.
pub(super) struct Brotli {
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    phase: StreamState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Fresh,
    Open,
    Ended,
}

impl Brotli {
    /// Creates a decoder that has read nothing.
    pub(super) fn new() -> Self {
        let alloc = StandardAlloc::default;
        Self {
            state: Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())),
            phase: StreamState::Fresh,
        }
    }
}

impl Decoder for Brotli {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        if self.phase == StreamState::Ended {
            return Ok(Step { read: input.len(), written: 0 });
        }
        if !input.is_empty() {
            self.phase = StreamState::Open;
        }
        let (mut input_left, mut output_left) = (input.len(), output.len());
        let (mut read, mut written, mut total) = (0, 0, 0);
        let result = BrotliDecompressStream(
            &mut input_left,
            &mut read,
            input,
            &mut output_left,
            &mut written,
            output,
            &mut total,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultFailure => return Err(DecodeError::Invalid { coding: CODING }),
            BrotliResult::ResultSuccess => self.phase = StreamState::Ended,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
        }
        Ok(Step { read, written })
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        match self.phase {
            StreamState::Open => Err(DecodeError::CutOff { coding: CODING }),
            StreamState::Fresh | StreamState::Ended => Ok(()),
        }
    }

    fn memory(&self) -> usize {
        let codes = [&self.state.literal_hgroup, &self.state.insert_copy_hgroup, &self.state.distance_hgroup];
        let codes = codes.map(|group| group.codes.slice().len()).into_iter().sum::<usize>();
        BASE + self.state.ringbuffer.slice().len() + codes * size_of::<HuffmanCode>()
    }
}
