//! `zstd` (RFC 8878), with windows of up to 8 MiB as RFC 9659 limits them.

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::{DecodeError, Decoder, Step};

const INVALID: DecodeError = DecodeError::Invalid { coding: "zstd" };
/// Two to this power is 8 MiB.
const WINDOW_LOG: u32 = 23;

/// Undoes `zstd`: one frame after another.
pub(super) struct Zstd {
    context: DCtx<'static>,
    /// Whether a frame has begun that is not complete.
    open: bool,
    /// Whether there may be more to write than there was room for. The library takes repeated calls without input or room for an error.
    full: bool,
}

impl Zstd {
    /// Nothing has come yet.
    pub(super) fn new() -> Result<Self, DecodeError> {
        let mut context = DCtx::try_create().ok_or(DecodeError::Busy)?;
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
            .map_err(|_| INVALID)?;
        Ok(Self {
            context,
            open: false,
            full: false,
        })
    }
}

impl Decoder for Zstd {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        if input.is_empty() && !self.full {
            return Ok(Step { read: 0, written: 0 });
        }
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(output);
        let missing = self
            .context
            .decompress_stream(&mut to, &mut from)
            .map_err(|_| INVALID)?;
        let step = Step {
            read: from.pos(),
            written: to.pos(),
        };
        self.open = missing != 0;
        self.full = step.written == output.len();
        Ok(step)
    }

    fn finish(&self) -> Result<(), DecodeError> {
        if self.open {
            return Err(DecodeError::CutOff { coding: "zstd" });
        }
        Ok(())
    }

    fn memory(&self) -> usize {
        self.context.sizeof()
    }
}
