//! Output that is kept, within bounds.

use std::collections::VecDeque;

/// Keeps the first and the last bytes of a stream and counts those between.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half: usize,
    dropped: u64,
}

impl Capture {
    /// The kept bytes of each of stdout and stderr: 16 MiB.
    pub(crate) const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

    pub(crate) fn new(limit: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), half: limit / 2, dropped: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        // Only the end of more than the tail holds needs to be moved.
        let skip = rest.len().saturating_sub(self.half);
        let (skipped, kept) = rest.split_at(skip);
        let overflow = (self.tail.len() + kept.len()).saturating_sub(self.half).min(self.tail.len());
        self.tail.drain(..overflow);
        self.tail.extend(kept);
        self.dropped += (skipped.len() + overflow) as u64;
    }

    /// The number of bytes that were not kept.
    pub(crate) fn cut(&self) -> u64 {
        self.dropped
    }

    /// The kept bytes, with a line in the middle that states the size of the gap.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        if self.dropped > 0 {
            bytes.extend_from_slice(format!("\n[{} bytes cut]\n", self.dropped).as_bytes());
        }
        bytes.extend(self.tail);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(limit: usize, pieces: &[&str]) -> String {
        let mut capture = Capture::new(limit);
        for piece in pieces {
            capture.push(piece.as_bytes());
        }
        String::from_utf8(capture.into_bytes()).unwrap()
    }

    #[test]
    fn output_within_the_limit_is_kept_whole_in_any_split() {
        assert_eq!(captured(8, &["abcdefgh"]), "abcdefgh");
        assert_eq!(captured(8, &["a", "bcdef", "gh"]), "abcdefgh");
        assert_eq!(captured(8, &[]), "");
    }

    #[test]
    fn output_over_the_limit_keeps_both_ends_and_states_the_gap() {
        let expected = "abcd\n[18 bytes cut]\nwxyz";
        assert_eq!(captured(8, &["abcdefghijklmnopqrstuvwxyz"]), expected);
        assert_eq!(captured(8, &["abc", "defghijklmnop", "qrstuvwx", "yz"]), expected);
    }
}
