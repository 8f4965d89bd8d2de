//! The trailers after the last chunk, and the signature over them.

use super::canonical::canonical_value;
use super::chain::Chain;
use super::chunk_head::{check_signature, padded};
use super::error::ChunkError;

/// The maximum length of all trailers in bytes, including their signature.
pub(super) const MAX_TRAILERS: usize = 8 * 1024;
/// The line with the signature.
const SIGNATURE: &str = "x-amz-trailer-signature";

/// The trailers so far.
#[derive(Debug, Default)]
pub(super) struct Trailers {
    fields: Vec<(String, Vec<u8>)>,
    length: usize,
    signed: bool,
}

impl Trailers {
    /// How many more bytes the trailers may have.
    pub(super) fn room(&self) -> usize {
        MAX_TRAILERS.saturating_sub(self.length)
    }

    /// Whether the signature has passed.
    pub(super) fn is_signed(&self) -> bool {
        self.signed
    }

    /// Takes the next line, and returns the line to send: the same, unless it is the signature.
    pub(super) fn line(&mut self, line: &[u8], chain: &mut Chain) -> Result<Vec<u8>, ChunkError> {
        self.length += line.len();
        let content = line.trim_ascii_end();
        if content.is_empty() {
            // Clients do not agree on whether there is a line between the last chunk, the trailers
            // and the signature.
            return Ok(line.to_vec());
        }
        if self.signed {
            return Err(ChunkError::DataAfterEnd);
        }
        let text = str::from_utf8(line).map_err(|_| ChunkError::Malformed("a trailer is not UTF-8"))?;
        let (name, value) = text
            .split_once(':')
            .filter(|(name, _)| is_name(name))
            .ok_or(ChunkError::Malformed("a trailer has no name"))?;
        if name.eq_ignore_ascii_case(SIGNATURE) {
            return self.signature(text, value, chain);
        }
        self.fields.push((name.to_ascii_lowercase(), canonical_value(value.as_bytes())));
        Ok(line.to_vec())
    }

    fn signature(&mut self, line: &str, value: &str, chain: &mut Chain) -> Result<Vec<u8>, ChunkError> {
        let old = value.trim();
        check_signature(chain.algorithm(), old)?;
        let (before, after) =
            line.split_once(old).ok_or(ChunkError::Malformed("a signature is malformed"))?;
        let new = padded(chain.sign_trailers(&self.canonical()), old.len())?;
        self.signed = true;
        Ok([before, &new, after].concat().into_bytes())
    }

    /// The trailers as they are signed, each followed by a line feed.
    fn canonical(&mut self) -> Vec<u8> {
        self.fields.sort_by(|one, other| one.0.cmp(&other.0));
        let mut text = Vec::new();
        for (name, value) in &self.fields {
            text.extend_from_slice(name.as_bytes());
            text.push(b':');
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        text
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}
