//! Frames out of bytes that arrive in pieces.

use crate::frame::{Frame, HEAD};

/// No frame is longer, in bytes: what the kernel lets a program be started with is less.
const LARGEST_FRAME: usize = 4 * 1024 * 1024;

/// Bytes that are no frame. What comes after them cannot be read either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame claims to be longer than any is.
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// A frame of this kind does not exist, or not with this content.
    #[error("a frame of kind {0} cannot be read")]
    Unreadable(u8),
}

/// Takes bytes as they come and gives whole frames.
#[derive(Debug, Default)]
pub struct Decoder {
    held: Vec<u8>,
    /// How much of `held` was given out already.
    read: usize,
}

impl Decoder {
    /// Adds what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.drain(..self.read);
        self.read = 0;
        self.held.extend_from_slice(bytes);
    }

    /// The next frame; `None` until more arrives.
    ///
    /// # Errors
    ///
    /// When the bytes are no frame.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, ProtocolError> {
        let rest = self.held.get(self.read..).unwrap_or_default();
        let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let [kind, numbers @ ..] = *head;
        let (command, length) = numbers.split_at(4);
        let (command, length) = (number(command), number(length));
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > LARGEST_FRAME {
            return Err(ProtocolError::TooLong(length));
        }
        let Some(content) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = Frame::decode(kind, command, content).ok_or(ProtocolError::Unreadable(kind))?;
        self.read += HEAD + length;
        Ok(Some(frame))
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, &byte| (number << 8) | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{CommandLine, End, LARGEST_CHUNK, Request};

    fn frames() -> Vec<Frame> {
        vec![
            Frame::Ready,
            Frame::Start {
                command: 1,
                request: Request::Run {
                    command: CommandLine::Program(vec!["ls".to_owned(), "-l".to_owned()]),
                    env: BTreeMap::from([("A".to_owned(), "ü\n".to_owned())]),
                    working_dir: Some("/tmp".to_owned()),
                    input: true,
                },
            },
            Frame::Input {
                command: 1,
                bytes: vec![0, 255],
            },
            Frame::EndOfInput { command: 1 },
            Frame::Stdout {
                command: u32::MAX,
                bytes: vec![7; LARGEST_CHUNK],
            },
            Frame::Stderr {
                command: 2,
                bytes: Vec::new(),
            },
            Frame::Taken {
                command: 1,
                bytes: u32::MAX,
            },
            Frame::Kill { command: 1 },
            Frame::Ended {
                command: 1,
                end: End::killed(),
            },
        ]
    }

    #[test]
    fn frames_come_back_however_they_are_cut() {
        let frames = frames();
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::encode).collect();
        for size in [1, 2, 8, 9, 10, 4096, bytes.len()] {
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
    fn what_is_no_frame_is_an_error() {
        let too_large = vec![b'o', 0, 0, 0, 1, 0, 0, 0x80, 0x01];
        let mut chunk = too_large.clone();
        chunk.extend(vec![0; LARGEST_CHUNK + 1]);
        for (bytes, expected) in [
            (
                vec![b'?', 0, 0, 0, 0, 0, 0, 0, 0],
                ProtocolError::Unreadable(b'?'),
            ),
            (chunk, ProtocolError::Unreadable(b'o')),
            (
                vec![b'x', 0, 0, 0, 0, 0, 0, 0, 1, b'{'],
                ProtocolError::Unreadable(b'x'),
            ),
            (
                vec![b'r', 0, 0, 0, 0, 0, 0, 0, 1, 0],
                ProtocolError::Unreadable(b'r'),
            ),
            (
                vec![b'o', 0, 0, 0, 0, 255, 255, 255, 255],
                ProtocolError::TooLong(0xffff_ffff),
            ),
        ] {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            assert_eq!(decoder.next_frame(), Err(expected), "{bytes:?}");
        }
        let mut decoder = Decoder::default();
        decoder.push(&too_large);
        assert_eq!(decoder.next_frame(), Ok(None), "its content may still come");
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_frame() {}
        }
    }
}
