//! Messages in both directions, and their encoding: the length of a head, the length of a payload,
//! the head as JSON, the payload.

use serde::{Deserialize, Serialize};

use crate::{End, Request};

/// Maximum number of bytes of input or output in one frame.
pub const LARGEST_CHUNK: usize = 32 * 1024;

/// A message. The sandbox assigns the numbers of commands, and never reuses one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Frame {
    /// To the supervisor: start this.
    Start {
        /// The command's number.
        command: u32,
        /// The command.
        request: Request,
    },
    /// To the supervisor: input of the command.
    Input {
        /// The command's number.
        command: u32,
        /// At most [`LARGEST_CHUNK`].
        #[serde(skip)]
        bytes: Vec<u8>,
    },
    /// To the supervisor: the end of the command's input.
    EndOfInput {
        /// The command's number.
        command: u32,
    },
    /// To the supervisor: kill the command, with every process that it started.
    Kill {
        /// The command's number.
        command: u32,
    },
    /// From the supervisor: it is running.
    Ready,
    /// From the supervisor: stdout of the command.
    Stdout {
        /// The command's number.
        command: u32,
        /// At most [`LARGEST_CHUNK`].
        #[serde(skip)]
        bytes: Vec<u8>,
    },
    /// From the supervisor: stderr of the command.
    Stderr {
        /// The command's number.
        command: u32,
        /// At most [`LARGEST_CHUNK`].
        #[serde(skip)]
        bytes: Vec<u8>,
    },
    /// From the supervisor: the command read this number of bytes of its input, or never will.
    Taken {
        /// The command's number.
        command: u32,
        /// Their number.
        bytes: u32,
    },
    /// From the supervisor: the command has ended, with every process that it started. The last
    /// message about it.
    Ended {
        /// The command's number.
        command: u32,
        /// How.
        end: End,
    },
}

impl Frame {
    /// Its encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Plain data with string keys: serializing it as JSON does not fail.
        let head = serde_json::to_vec(self).unwrap_or_default();
        let payload: &[u8] = match self {
            Self::Input { bytes, .. } | Self::Stdout { bytes, .. } | Self::Stderr { bytes, .. } => bytes,
            _ => &[],
        };
        let length = |part: &[u8]| u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes();
        [&length(&head)[..], &length(payload), &head, payload].concat()
    }

    /// `None` if there is no such frame.
    pub(crate) fn decode(head: &[u8], payload: &[u8]) -> Option<Self> {
        let mut frame = serde_json::from_slice(head).ok()?;
        match &mut frame {
            Self::Input { bytes, .. } | Self::Stdout { bytes, .. } | Self::Stderr { bytes, .. }
                if payload.len() <= LARGEST_CHUNK =>
            {
                *bytes = payload.to_vec();
            }
            _ if payload.is_empty() => {}
            _ => return None,
        }
        Some(frame)
    }
}
