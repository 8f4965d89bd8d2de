//! Re-signing of bodies that are signed chunk by chunk.
//!
//! Invariant: the output is exactly as long as the input, so the `Content-Length` of the request
//! stays valid. One chunk is withheld at a time, because its signature precedes its data.

use std::fmt;

use bytes::BytesMut;
use sha2::{Digest, Sha256};

use super::chain::Chain;
use super::chunk_head::{ChunkHead, MAX_HEAD};
use super::error::ChunkError;
use super::trailers::Trailers;

/// The maximum data of one chunk, in bytes. Clients use 8 KiB to 128 KiB.
pub(crate) const MAX_CHUNK: usize = 1024 * 1024;

/// The signer of one body.
pub(crate) struct ChunkSigner {
    chain: Chain,
    has_trailers: bool,
    state: State,
    /// The line being read.
    line: Vec<u8>,
    /// The data of the chunk being read.
    data: Vec<u8>,
}

/// The part of the body expected next.
enum State {
    Head,
    Data {
        head: ChunkHead,
        size: usize,
        hash: Sha256,
    },
    DataEnd,
    /// The empty line after the last chunk.
    LastLine,
    Trailers(Trailers),
    End,
    Failed(ChunkError),
}

impl ChunkSigner {
    /// Creates a signer that continues `chain`, for a body with or without signed trailers.
    pub(super) fn new(chain: Chain, has_trailers: bool) -> Self {
        Self { chain, has_trailers, state: State::Head, line: Vec::new(), data: Vec::new() }
    }

    /// Takes the next bytes of the body, split anywhere, and appends the bytes that can be sent to
    /// `output`.
    ///
    /// # Errors
    ///
    /// See [`ChunkError`]. From then on each call fails, and nothing more may be sent.
    pub(crate) fn push(&mut self, input: &[u8], output: &mut BytesMut) -> Result<(), ChunkError> {
        let mut rest = input;
        while !rest.is_empty() {
            rest = self.step(rest, output).inspect_err(|error| self.state = State::Failed(*error))?;
        }
        Ok(())
    }

    /// Ends the body.
    ///
    /// # Errors
    ///
    /// [`ChunkError::Truncated`] if it is incomplete, or the error of an earlier call.
    pub(crate) fn finish(&mut self, output: &mut BytesMut) -> Result<(), ChunkError> {
        if let State::Trailers(trailers) = &mut self.state {
            // The last line may lack its end.
            let line = std::mem::take(&mut self.line);
            output.extend_from_slice(&trailers.line(&line, &mut self.chain)?);
        }
        match &self.state {
            State::End => Ok(()),
            State::LastLine if self.line.is_empty() => Ok(()),
            State::Trailers(trailers) if trailers.is_signed() => Ok(()),
            State::Failed(error) => Err(*error),
            _ => Err(ChunkError::Truncated),
        }
    }

    /// Takes some of `input`, which is not empty, and returns the rest.
    fn step<'a>(&mut self, input: &'a [u8], output: &mut BytesMut) -> Result<&'a [u8], ChunkError> {
        match &mut self.state {
            State::Head => self.head(input, output),
            State::Data { .. } => self.data(input, output),
            State::DataEnd => self.line_end(input, State::Head, output),
            State::LastLine => self.line_end(input, State::End, output),
            State::Trailers(trailers) => {
                let room = trailers.room();
                let (whole, rest) = take_line(&mut self.line, input, room)?;
                if whole {
                    output.extend_from_slice(&trailers.line(&self.line, &mut self.chain)?);
                    self.line.clear();
                }
                Ok(rest)
            }
            State::End => Err(ChunkError::DataAfterEnd),
            State::Failed(error) => Err(*error),
        }
    }

    fn head<'a>(&mut self, input: &'a [u8], output: &mut BytesMut) -> Result<&'a [u8], ChunkError> {
        let (whole, rest) = take_line(&mut self.line, input, MAX_HEAD)?;
        if !whole {
            return Ok(rest);
        }
        let head = ChunkHead::new(self.chain.algorithm(), &self.line)?;
        self.line.clear();
        let size =
            usize::try_from(head.size).ok().filter(|size| *size <= MAX_CHUNK).ok_or(ChunkError::TooLarge)?;
        self.state = if size > 0 {
            State::Data { head, size, hash: Sha256::new() }
        } else {
            let signature = self.chain.sign_chunk(Sha256::new());
            output.extend_from_slice(head.with(signature)?.as_bytes());
            if self.has_trailers { State::Trailers(Trailers::default()) } else { State::LastLine }
        };
        Ok(rest)
    }

    fn data<'a>(&mut self, input: &'a [u8], output: &mut BytesMut) -> Result<&'a [u8], ChunkError> {
        let State::Data { head, size, hash } = &mut self.state else {
            return Ok(input);
        };
        let missing = size.saturating_sub(self.data.len());
        let (taken, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
        hash.update(taken);
        self.data.extend_from_slice(taken);
        if self.data.len() == *size {
            let signature = self.chain.sign_chunk(std::mem::take(hash));
            output.extend_from_slice(head.with(signature)?.as_bytes());
            output.extend_from_slice(&self.data);
            self.data.clear();
            self.state = State::DataEnd;
        }
        Ok(rest)
    }

    /// Takes an empty line, after which `next` is expected.
    fn line_end<'a>(
        &mut self,
        input: &'a [u8],
        next: State,
        output: &mut BytesMut,
    ) -> Result<&'a [u8], ChunkError> {
        const MALFORMED: ChunkError = ChunkError::Malformed("a chunk is longer than its size");
        let (whole, rest) = take_line(&mut self.line, input, 2).map_err(|_| MALFORMED)?;
        if !b"\r\n".starts_with(&self.line) {
            return Err(MALFORMED);
        }
        if whole {
            output.extend_from_slice(&self.line);
            self.line.clear();
            self.state = next;
        }
        Ok(rest)
    }
}

impl fmt::Debug for ChunkSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChunkSigner(redacted)")
    }
}

/// Appends `input` to `line` up to the end of the line; returns whether the line is complete, and
/// the rest.
fn take_line<'a>(line: &mut Vec<u8>, input: &'a [u8], most: usize) -> Result<(bool, &'a [u8]), ChunkError> {
    let end = input.iter().position(|byte| *byte == b'\n');
    let length = end.map_or(input.len(), |end| end + 1);
    let (taken, rest) = input.split_at_checked(length).unwrap_or((input, &[]));
    if line.len() + taken.len() > most {
        return Err(ChunkError::Malformed("a line is too long"));
    }
    line.extend_from_slice(taken);
    Ok((end.is_some(), rest))
}
