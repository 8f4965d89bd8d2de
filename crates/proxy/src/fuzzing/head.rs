//! Choices read from a fuzzer's bytes.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Lines of a head at most, to keep one run short.
const MOST_LINES: usize = 64;

/// Enough for every byte of the longest input.
const MOST_PIECES: usize = 4096;

/// Bytes that are read from the front.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// The next byte; 0 where there is none.
    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Sizes of pieces: at most 31, each from 0 to 255, behind a byte that says how many there are.
    pub(crate) fn sizes(&mut self) -> Vec<usize> {
        let count = self.byte() % 32;
        (0..count).map(|_| usize::from(self.byte())).collect()
    }

    /// All that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// `data` cut into pieces of `sizes`, again and again; whole where that would not end, and in one piece after very many.
pub(crate) fn pieces<'a>(data: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    if sizes.iter().all(|size| *size == 0) {
        return vec![data];
    }
    let mut pieces = Vec::new();
    let mut rest = data;
    for size in sizes.iter().cycle() {
        if rest.is_empty() || pieces.len() == MOST_PIECES {
            break;
        }
        let (piece, after) = rest.split_at_checked(*size).unwrap_or((rest, &[]));
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// The first line, and what follows it.
pub(crate) fn first_line(data: &[u8]) -> (&[u8], &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    end.and_then(|end| data.split_at_checked(end))
        .map_or((data, &[]), |(line, rest)| {
            (line, rest.get(1..).unwrap_or_default())
        })
}

/// Adds each line `NAME: VALUE` that is a header.
pub(crate) fn add_headers(headers: &mut HeaderMap, lines: &[u8]) {
    for line in lines.split(|byte| *byte == b'\n').take(MOST_LINES) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
}
