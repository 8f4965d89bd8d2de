//! Parses the headers of HTTP/2 frames, however the bytes are split. Payloads are not stored.

use std::convert::Infallible;

/// The length of a frame header.
const HEAD: usize = 9;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const END_STREAM: u8 = 1;

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    /// The length of the payload in bytes.
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl FrameHead {
    fn read(head: [u8; HEAD]) -> Self {
        let [high, middle, low, kind, flags, stream @ ..] = head;
        Self {
            length: usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low),
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }
}

/// Tracks the frames of one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Frames {
    head: [u8; HEAD],
    /// How many bytes of `head` have arrived.
    come: usize,
    /// Bytes to skip before the next frame begins.
    payload: usize,
}

impl Frames {
    /// Skips `bytes` bytes before the first frame.
    pub(crate) fn behind(bytes: usize) -> Self {
        Self { payload: bytes, ..Self::default() }
    }

    /// Whether the next byte is the first of a frame.
    pub(crate) fn is_at_start(&self) -> bool {
        self.come == 0 && self.payload == 0
    }

    /// Parses `bytes`, and calls `begin` for each frame header that is complete.
    pub(crate) fn follow<E>(
        &mut self,
        mut bytes: &[u8],
        mut begin: impl FnMut(FrameHead) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((first, rest)) = bytes.split_first() {
            if self.payload > 0 {
                let taken = self.payload.min(bytes.len());
                self.payload -= taken;
                bytes = bytes.get(taken..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.head.get_mut(self.come) {
                *place = *first;
            }
            self.come += 1;
            bytes = rest;
            if self.come == HEAD {
                self.come = 0;
                let head = FrameHead::read(self.head);
                self.payload = head.length;
                begin(head)?;
            }
        }
        Ok(())
    }

    /// How many of `bytes` come before the first frame of `kind` that begins after the first byte.
    pub(crate) fn before(&self, kind: u8, bytes: &[u8]) -> usize {
        let mut at = self.clone();
        let mut rest = bytes;
        while !rest.is_empty() {
            let begins = rest.len() < bytes.len() && at.is_at_start();
            if begins && rest.get(3) == Some(&kind) {
                break;
            }
            // To the beginning of the next frame, or to the end.
            let step = if at.payload > 0 { at.payload } else { HEAD - at.come };
            let (passed, after) = rest.split_at_checked(step).unwrap_or((rest, &[]));
            let Ok(()) = at.follow(passed, |_| Ok::<(), Infallible>(()));
            rest = after;
        }
        bytes.len() - rest.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, length: u8) -> Vec<u8> {
        [&[0, 0, length, kind, 0, 0, 0, 0, 1], vec![7; length.into()].as_slice()].concat()
    }

    #[test]
    fn frame_of_a_kind_is_found() {
        let bytes = [frame(4, 3), frame(3, 4), frame(0, 9), frame(3, 4)].concat();
        let frames = Frames::default();
        assert_eq!(frames.before(3, &bytes), 12);
        // The caller checks a frame that begins with the first byte.
        assert_eq!(frames.before(3, &bytes[12..]), 13 + 18);
        assert_eq!(frames.before(9, &bytes), bytes.len());
        assert_eq!(Frames::behind(2).before(3, &bytes), bytes.len());
        assert_eq!(Frames::behind(12).before(3, &bytes), 12);
    }

    proptest! {
        #[test]
        fn any_split_yields_the_same_frames(kinds in prop::collection::vec((0_u8..10, 0_u8..30), 0..8), cut in any::<prop::sample::Index>()) {
            let bytes: Vec<u8> = kinds.iter().flat_map(|(kind, length)| frame(*kind, *length)).collect();
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for part in [first, second] {
                frames.follow(part, |head| { seen.push((head.kind, head.length)); Ok::<(), ()>(()) }).unwrap();
            }
            let expected: Vec<_> = kinds.iter().map(|(kind, length)| (*kind, usize::from(*length))).collect();
            prop_assert_eq!(seen, expected);
            prop_assert!(frames.is_at_start());
        }
    }
}
