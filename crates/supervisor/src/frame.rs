//! What is said in either direction, and its bytes: a kind, the command's number, a length, and so many bytes.

use crate::{End, Request};

/// Bytes of input or output in one frame at most.
pub const LARGEST_CHUNK: usize = 32 * 1024;

/// Bytes of a frame before its content.
pub(crate) const HEAD: usize = 9;

/// A message. The sandbox chooses the numbers of commands, and uses none twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// To the supervisor: start this.
    Start {
        /// The command's number.
        command: u32,
        /// What it is.
        request: Request,
    },
    /// To the supervisor: what the command reads.
    Input {
        /// The command's number.
        command: u32,
        /// At most [`LARGEST_CHUNK`].
        bytes: Vec<u8>,
    },
    /// To the supervisor: the command reads no more.
    EndOfInput {
        /// The command's number.
        command: u32,
    },
    /// To the supervisor: end it, with all that it started.
    Kill {
        /// The command's number.
        command: u32,
    },
    /// From the supervisor: it is there.
    Ready,
    /// From the supervisor: the command wrote this on stdout.
    Stdout {
        /// The command's number.
        command: u32,
        /// At most [`LARGEST_CHUNK`].
        bytes: Vec<u8>,
    },
    /// Likewise on stderr.
    Stderr {
        /// The command's number.
        command: u32,
        /// At most [`LARGEST_CHUNK`].
        bytes: Vec<u8>,
    },
    /// From the supervisor: the command took so many bytes of its input, or will never take them.
    Taken {
        /// The command's number.
        command: u32,
        /// How many.
        bytes: u32,
    },
    /// From the supervisor: the command has ended, and so has all that it started. Nothing more is said of it.
    Ended {
        /// The command's number.
        command: u32,
        /// How.
        end: End,
    },
}

impl Frame {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Both are plain data with string keys: writing them as JSON does not fail.
        let json = |written: serde_json::Result<Vec<u8>>| written.unwrap_or_default();
        match self {
            Self::Start { command, request } => encoded(b'S', *command, &json(serde_json::to_vec(request))),
            Self::Input { command, bytes } => encoded(b'I', *command, bytes),
            Self::EndOfInput { command } => encoded(b'E', *command, &[]),
            Self::Kill { command } => encoded(b'K', *command, &[]),
            Self::Ready => encoded(b'r', 0, &[]),
            Self::Stdout { command, bytes } => encoded(b'o', *command, bytes),
            Self::Stderr { command, bytes } => encoded(b'e', *command, bytes),
            Self::Taken { command, bytes } => encoded(b't', *command, &bytes.to_be_bytes()),
            Self::Ended { command, end } => encoded(b'x', *command, &json(serde_json::to_vec(end))),
        }
    }

    /// The frame of this kind; `None` where there is no such frame.
    pub(crate) fn decode(kind: u8, command: u32, content: &[u8]) -> Option<Self> {
        let bytes = || (content.len() <= LARGEST_CHUNK).then(|| content.to_vec());
        let nothing = || content.is_empty().then_some(());
        Some(match kind {
            b'S' => Self::Start {
                command,
                request: serde_json::from_slice(content).ok()?,
            },
            b'I' => Self::Input {
                command,
                bytes: bytes()?,
            },
            b'E' => nothing().map(|()| Self::EndOfInput { command })?,
            b'K' => nothing().map(|()| Self::Kill { command })?,
            b'r' => nothing().map(|()| Self::Ready)?,
            b'o' => Self::Stdout {
                command,
                bytes: bytes()?,
            },
            b'e' => Self::Stderr {
                command,
                bytes: bytes()?,
            },
            b't' => Self::Taken {
                command,
                bytes: u32::from_be_bytes(content.try_into().ok()?),
            },
            b'x' => Self::Ended {
                command,
                end: serde_json::from_slice(content).ok()?,
            },
            _ => return None,
        })
    }
}

fn encoded(kind: u8, command: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEAD + content.len());
    bytes.push(kind);
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}
