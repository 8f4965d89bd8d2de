//! Finds the end of a chunked body, byte by byte, with nothing left to interpretation.

use super::head::is_token;

/// Maximum bytes of one chunk's extension.
const EXTENSION: u32 = 1024;
/// Maximum bytes of all trailers.
const TRAILERS: u32 = 8 * 1024;
/// Maximum hexadecimal digits of a chunk's size.
const SIZE_DIGITS: u8 = 15;

/// Follows a chunked body, however its bytes are split.
#[derive(Debug, Clone)]
pub(super) struct Chunked {
    expected: Expected,
}

/// The position in the body after some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// All of them belong to the body, which continues.
    More,
    /// The body ends after this many of them.
    End(usize),
    /// The byte at this offset does not fit a chunked body.
    Malformed(usize),
}

#[derive(Debug, Clone, Copy)]
enum Expected {
    Size { digits: u8, size: u64 },
    Extension { size: u64, length: u32 },
    SizeLineFeed { size: u64 },
    Data(u64),
    DataCarriageReturn,
    DataLineFeed,
    TrailerStart { length: u32 },
    TrailerName { length: u32 },
    Trailer { length: u32 },
    TrailerLineFeed { length: u32 },
    LastLineFeed,
}

impl Chunked {
    /// A reader at the beginning of a body.
    pub(super) fn new() -> Self {
        Self { expected: Expected::Size { digits: 0, size: 0 } }
    }

    /// Follows the next `bytes`.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Progress {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if let Expected::Data(left) = self.expected {
                let available = bytes.len() - at;
                let taken = usize::try_from(left).map_or(available, |left| left.min(available));
                at += taken;
                let left = left - taken as u64;
                self.expected = if left == 0 { Expected::DataCarriageReturn } else { Expected::Data(left) };
                continue;
            }
            match (self.expected, byte) {
                (Expected::LastLineFeed, b'\n') => return Progress::End(at + 1),
                (expected, byte) => match expected.after(byte) {
                    Some(next) => self.expected = next,
                    None => return Progress::Malformed(at),
                },
            }
            at += 1;
        }
        Progress::More
    }
}

impl Expected {
    /// The expectation after `byte`; `None` if the byte does not fit.
    fn after(self, byte: u8) -> Option<Self> {
        let next = match (self, byte) {
            (Self::Size { digits, size }, digit) if digit.is_ascii_hexdigit() => {
                if digits == SIZE_DIGITS {
                    return None;
                }
                let value = u64::from(char::from(digit).to_digit(16)?);
                Self::Size { digits: digits + 1, size: size * 16 + value }
            }
            (Self::Size { digits: 1.., size } | Self::Extension { size, .. }, b'\r') => {
                Self::SizeLineFeed { size }
            }
            (Self::Size { digits: 1.., size }, b';') => Self::Extension { size, length: 0 },
            (Self::Extension { size, length }, byte) if is_text(byte) && length < EXTENSION => {
                Self::Extension { size, length: length + 1 }
            }
            (Self::SizeLineFeed { size: 0 }, b'\n') => Self::TrailerStart { length: 0 },
            (Self::SizeLineFeed { size }, b'\n') => Self::Data(size),
            (Self::DataCarriageReturn, b'\r') => Self::DataLineFeed,
            (Self::DataLineFeed, b'\n') => Self::Size { digits: 0, size: 0 },
            (Self::TrailerStart { .. }, b'\r') => Self::LastLineFeed,
            (Self::TrailerStart { length }, byte) if is_token(byte) => Self::TrailerName { length },
            (Self::TrailerName { length }, byte) if is_token(byte) && length < TRAILERS => {
                Self::TrailerName { length: length + 1 }
            }
            (Self::TrailerName { length }, b':') => Self::Trailer { length },
            (Self::Trailer { length }, b'\r') => Self::TrailerLineFeed { length },
            (Self::Trailer { length }, byte) if is_text(byte) && length < TRAILERS => {
                Self::Trailer { length: length + 1 }
            }
            (Self::TrailerLineFeed { length }, b'\n') if length < TRAILERS => {
                Self::TrailerStart { length: length + 2 }
            }
            _ => return None,
        };
        Some(next)
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bodies_end_or_fail_at_the_expected_byte() {
        let cases: &[(&[u8], Progress)] = &[
            (b"0\r\n\r\n", Progress::End(5)),
            (b"0\r\n\r\nGET /", Progress::End(5)),
            (b"3\r\nabc\r\n0\r\n\r\n", Progress::End(13)),
            (b"00a;x=\"y\"\r\n0123456789\r\n0\r\na: b\r\nc: d\r\n\r\n", Progress::End(40)),
            (b"5\r\nab", Progress::More),
            (b"\r\n", Progress::Malformed(0)),
            (b"g\r\n", Progress::Malformed(0)),
            (b"0x1\r\n", Progress::Malformed(1)),
            (b"-1\r\n", Progress::Malformed(0)),
            (b"1 \r\n", Progress::Malformed(1)),
            (b"1\n", Progress::Malformed(1)),
            (b"1\r\r", Progress::Malformed(2)),
            (b"1\r\nab", Progress::Malformed(4)),
            (b"1\r\na\n", Progress::Malformed(4)),
            (b"1;a\nb\r\n", Progress::Malformed(3)),
            (b"0\r\n\n", Progress::Malformed(3)),
            (b"0\r\n a: b\r\n\r\n", Progress::Malformed(3)),
            (b"0\r\na: b\n\r\n", Progress::Malformed(7)),
            (b"0\r\nab\r\n\r\n", Progress::Malformed(5)),
            (b"0\r\na b: c\r\n\r\n", Progress::Malformed(4)),
            (b"0\r\n: b\r\n\r\n", Progress::Malformed(3)),
            (b"0\r\na:\r\n\r\n", Progress::End(9)),
            (b"fffffffffffffffff\r\n", Progress::Malformed(15)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Chunked::new().advance(bytes), *expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded() {
        let extension = [b"1;".as_slice(), &[b'a'; 5000]].concat();
        assert!(matches!(Chunked::new().advance(&extension), Progress::Malformed(_)));
        let trailers = [b"0\r\n".as_slice(), &b"a: b\r\n".repeat(5000)].concat();
        assert!(matches!(Chunked::new().advance(&trailers), Progress::Malformed(_)));
    }

    proptest! {
        /// The result does not depend on how the bytes are split.
        #[test]
        fn split_does_not_change_the_end(bytes in "([0-3]\r\n|a|\r\n|0\r\n\r\n|;x|x: y\r\n|\n| ){0,12}", cut in 0usize..40) {
            let bytes = bytes.as_bytes();
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut split = Chunked::new();
            let progress = match split.advance(first) {
                Progress::More => match split.advance(second) {
                    Progress::More => Progress::More,
                    Progress::End(at) => Progress::End(first.len() + at),
                    Progress::Malformed(at) => Progress::Malformed(first.len() + at),
                },
                ended => ended,
            };
            prop_assert_eq!(Chunked::new().advance(bytes), progress);
        }
    }
}
