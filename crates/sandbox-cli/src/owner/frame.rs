//! The protocol after a request to attach, in both directions, and the form of stored output: one
//! byte of kind, four of length, and so many bytes.

use std::io;

use sandbox::TerminalSize;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest content of a frame.
pub(crate) const LONGEST: usize = 64 * 1024;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// To the run: typed input.
    Typed(Vec<u8>),
    /// To the run: the size of the terminal of the one who types.
    Size(TerminalSize),
    /// Of the run: output of its program to stdout, or to its terminal.
    Output(Vec<u8>),
    /// Of the run: the same to stderr, and messages of the sandbox.
    Message(Vec<u8>),
    /// Of the run: it has ended, with this exit code.
    Exit(u8),
    /// Of a command in a run: the last input was taken, and more may be sent. At most one piece
    /// waits.
    Taken,
    /// To a command in a run: end it.
    Stop,
    /// In stored output: its length before this frame.
    Offset(u64),
}

impl Frame {
    /// Its bytes. The caller must split content that is too long.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let (kind, content) = match self {
            Self::Typed(bytes) => (0, bytes.clone()),
            Self::Size(TerminalSize { columns, rows }) => {
                (1, [columns.to_be_bytes(), rows.to_be_bytes()].concat())
            }
            Self::Output(bytes) => (2, bytes.clone()),
            Self::Message(bytes) => (3, bytes.clone()),
            Self::Exit(code) => (4, vec![*code]),
            Self::Taken => (5, Vec::new()),
            Self::Stop => (6, Vec::new()),
            Self::Offset(length) => (7, length.to_be_bytes().to_vec()),
        };
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes();
        [&[kind][..], &length, &content].concat()
    }

    /// The output of a run or of the sandbox in it.
    pub(crate) fn output(&self) -> Option<&[u8]> {
        match self {
            Self::Output(bytes) | Self::Message(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The next frame; `None` at the end of the stream.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let kind = match stream.read_u8().await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            kind => kind?,
        };
        let length = stream.read_u32().await? as usize;
        if length > LONGEST {
            return Err(io::Error::other("a frame is too long"));
        }
        let mut content = vec![0; length];
        stream.read_exact(&mut content).await?;
        match (kind, content.as_slice()) {
            (0, _) => Ok(Some(Self::Typed(content))),
            (1, &[a, b, c, d]) => Ok(Some(Self::Size(TerminalSize {
                columns: u16::from_be_bytes([a, b]),
                rows: u16::from_be_bytes([c, d]),
            }))),
            (2, _) => Ok(Some(Self::Output(content))),
            (3, _) => Ok(Some(Self::Message(content))),
            (4, &[code]) => Ok(Some(Self::Exit(code))),
            (5, &[]) => Ok(Some(Self::Taken)),
            (6, &[]) => Ok(Some(Self::Stop)),
            (7, length) if let Ok(length) = length.try_into() => {
                Ok(Some(Self::Offset(u64::from_be_bytes(length))))
            }
            _ => Err(io::Error::other("a frame is invalid")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_round_trip_and_invalid_ones_are_errors() {
        let frames = [
            Frame::Typed(b"x\x03".to_vec()),
            Frame::Size(TerminalSize { columns: 300, rows: 2 }),
            Frame::Output(vec![0; LONGEST]),
            Frame::Message(Vec::new()),
            Frame::Exit(143),
            Frame::Taken,
            Frame::Stop,
            Frame::Offset(1 << 40),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        let mut stream = bytes.as_slice();
        for frame in frames {
            assert_eq!(Frame::read(&mut stream).await.unwrap(), Some(frame));
        }
        assert_eq!(Frame::read(&mut stream).await.unwrap(), None);
        for bytes in [&[9, 0, 0, 0, 0][..], &[0, 255, 0, 0, 0], &[1, 0, 0, 0, 1, 7], &[0, 0, 0, 0, 9, 1]] {
            let mut stream = bytes;
            assert!(Frame::read(&mut stream).await.is_err(), "{bytes:?}");
        }
    }
}
