//! Decodes choices from a fuzzer's bytes.

/// Bytes consumed from the front.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Starts at the beginning of `data`.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// The next byte; 0 at the end.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Sizes of pieces: at most 31, each from 0 to 255, preceded by a byte with their number.
    pub fn sizes(&mut self) -> Vec<usize> {
        let count = self.byte() % 32;
        (0..count).map(|_| usize::from(self.byte())).collect()
    }

    /// The remaining bytes.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
