//! Decodes frames from bytes that arrive in pieces.

use crate::frame::Frame;

/// Size of the two lengths at the beginning of a frame in bytes.
const LENGTHS: usize = 8;
/// Maximum number of bytes after them: larger than the kernel's limit on arguments and variables.
const LARGEST_FRAME: usize = 4 * 1024 * 1024;

/// Bytes that are not a frame. The data after them is unreadable too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame claims to exceed the maximum length.
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// A frame of an unknown form.
    #[error("malformed frame")]
    Unreadable,
}

/// Accepts bytes as they arrive, and returns complete frames.
#[derive(Debug, Default)]
pub struct Decoder {
    held: Vec<u8>,
    /// The number of bytes of `held` that were already returned.
    read: usize,
}

impl Decoder {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.drain(..self.read);
        self.read = 0;
        self.held.extend_from_slice(bytes);
    }

    /// The next frame; `None` until more arrives.
    ///
    /// # Errors
    ///
    /// If the bytes are not a frame.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, ProtocolError> {
        let rest = self.held.get(self.read..).unwrap_or_default();
        let Some((lengths, rest)) = rest.split_first_chunk::<LENGTHS>() else {
            return Ok(None);
        };
        let lengths = u64::from_be_bytes(*lengths);
        let [head, payload] = [lengths >> 32, lengths & u64::from(u32::MAX)]
            .map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        let length = head.saturating_add(payload);
        if length > LARGEST_FRAME {
            return Err(ProtocolError::TooLong(length));
        }
        let Some((head, payload)) = rest.get(..length).and_then(|frame| frame.split_at_checked(head)) else {
            return Ok(None);
        };
        let frame = Frame::decode(head, payload).ok_or(ProtocolError::Unreadable)?;
        self.read += LENGTHS + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{CommandLimits, CommandLine, End, ExceededLimit, LARGEST_CHUNK, Request};

    fn frames() -> Vec<Frame> {
        let request = Request::Run {
            command: CommandLine::Program(vec!["ls".to_owned(), "-l".to_owned()]),
            env: BTreeMap::from([("A".to_owned(), "ü\n".to_owned())]),
            working_dir: Some("/tmp".to_owned()),
            input: true,
            limits: CommandLimits { memory: Some(u64::MAX), pids: None },
        };
        let command = 1;
        vec![
            Frame::Ready,
            Frame::Start { command, request },
            Frame::Input { command, bytes: vec![0, 255] },
            Frame::EndOfInput { command },
            Frame::Stdout { command: u32::MAX, bytes: vec![7; LARGEST_CHUNK] },
            Frame::Stderr { command: 2, bytes: Vec::new() },
            Frame::Taken { command, bytes: u32::MAX },
            Frame::Kill { command },
            Frame::Ended { command, end: End::killed() },
            Frame::Ended { command: 2, end: End::Exceeded(ExceededLimit::Pids) },
        ]
    }

    #[test]
    fn frames_are_decoded_from_any_pieces() {
        let frames = frames();
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        for size in [1, 2, 7, 8, 9, 4096, bytes.len()] {
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in bytes.chunks(size) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    found.push(frame);
                }
            }
            assert!(found == frames, "{size}");
            assert!(decoder.held.len() - decoder.read == 0);
        }
    }

    #[test]
    fn bytes_that_are_not_a_frame_are_an_error() {
        let bytes = |lengths: [u32; 2], rest: &[u8]| [&lengths.map(u32::to_be_bytes).concat(), rest].concat();
        let too_large = u32::try_from(LARGEST_CHUNK).unwrap() + 1;
        let head = br#"{"stdout":{"command":1}}"#;
        let chunk = [&head[..], &vec![0; LARGEST_CHUNK + 1]].concat();
        for (bytes, expected) in [
            (bytes([3, 0], b"\"?\""), ProtocolError::Unreadable),
            (bytes([24, too_large], &chunk), ProtocolError::Unreadable),
            (bytes([1, 0], b"{"), ProtocolError::Unreadable),
            (bytes([7, 1], b"\"ready\"x"), ProtocolError::Unreadable),
            (bytes([u32::MAX, 0], b""), ProtocolError::TooLong(0xffff_ffff)),
            (bytes([1, 0x0040_0000], b""), ProtocolError::TooLong(0x0040_0001)),
        ] {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            assert_eq!(decoder.next_frame(), Err(expected));
        }
        let mut decoder = Decoder::default();
        decoder.push(&bytes([24, 4], head));
        assert_eq!(decoder.next_frame(), Ok(None), "its payload may still come");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_yield_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_frame() {}
        }
    }
}
