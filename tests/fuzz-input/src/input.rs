//! Choices read from a fuzzer's bytes.

/// Bytes that are read from the front.
#[derive(Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of `data` is to be read.
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// The next byte; 0 where there is none.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Sizes of pieces: at most 31, each from 0 to 255, behind a byte that says how many there are.
    pub fn sizes(&mut self) -> Vec<usize> {
        let count = self.byte() % 32;
        (0..count).map(|_| usize::from(self.byte())).collect()
    }

    /// All that is left.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
