//! `zstd` (RFC 8878), with windows of up to 8 MiB as RFC 9659 limits them.

use mzstd::{DecodeLimits, DecodeOperation, DecoderConfig, DecoderSessionOwned, Decompressor};

use super::{DecodeError, Decoder, Step};

const INVALID: DecodeError = DecodeError::Invalid { coding: "zstd" };
/// Two to this power is 8 MiB.
const WINDOW_LOG: u8 = 23;
/// The memory of a stream in addition to the text it remembers: its tables, and two blocks.
const BASE: usize = 512 * 1024;

/// Decoder for `zstd`: one frame after another.
pub(super) struct Zstd {
    session: DecoderSessionOwned,
}

impl Zstd {
    /// Creates a decoder that has read nothing.
    pub(super) fn new() -> Result<Self, DecodeError> {
        let limits = DecodeLimits::default().with_max_window_log(WINDOW_LOG);
        let config = DecoderConfig::from(limits.map_err(|_| INVALID)?);
        Ok(Self { session: Decompressor::new(config).into_session() })
    }
}

impl Decoder for Zstd {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        let progress = self.session.process(input, output, DecodeOperation::Process);
        let progress = progress.map_err(|_| INVALID)?;
        Ok(Step { read: progress.consumed, written: progress.produced })
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        // An empty body is neither a frame nor an error.
        if self.session.total_in() > 0 && self.session.finish(&mut []).is_err() {
            return Err(DecodeError::CutOff { coding: "zstd" });
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        // The decoder keeps up to twice its window before it moves it.
        let window = self.session.window_size().unwrap_or_default().saturating_mul(2);
        let remembered = window.min(self.session.total_out());
        BASE.saturating_add(usize::try_from(remembered).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a window of 8 MiB and without an end, in blocks of 128 KiB, each of one
    /// repeated byte.
    fn endless(blocks: usize) -> Vec<u8> {
        let head = [0x28, 0xb5, 0x2f, 0xfd, 0, (WINDOW_LOG - 10) << 3];
        let block = [0x02, 0x00, 0x10, b'x'];
        [&head[..], &block.repeat(blocks)].concat()
    }

    #[test]
    fn memory_estimate_follows_the_output_up_to_twice_the_window() {
        let encoded = endless(8 * 20);
        let mut zstd = Zstd::new().unwrap();
        assert_eq!(zstd.memory(), BASE);
        let (mut read, mut written, mut piece) = (0, 0, vec![0; 32 * 1024]);
        loop {
            let step = zstd.step(&encoded[read..], &mut piece).unwrap();
            (read, written) = (read + step.read, written + step.written);
            assert_eq!(zstd.memory(), BASE + written.min(2 << WINDOW_LOG), "{written}");
            if step.written == 0 && read == encoded.len() {
                break;
            }
        }
        assert_eq!(written, 20 << 20);
        assert!(zstd.memory() <= 17 << 20, "the bound that `reservation` documents");
    }
}
