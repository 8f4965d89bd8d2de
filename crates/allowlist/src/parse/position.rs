//! Places in a text.

/// The mark that some editors put at the beginning of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A place, as editors count: both numbers from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Position {
    pub(super) const START: Self = Self { line: 1, column: 1 };

    /// The place of a byte offset, where lines end with `\n`.
    pub(super) fn of_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..text.floor_char_boundary(offset)).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { line, column }
    }
}

/// The text without a byte order mark, so that the first column is the first one that can be seen.
pub(super) fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}
