//! Positions in a text.

/// Some editors begin files with this mark.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A position in a text, as counted by editors: both numbers from 1, columns in characters. A byte
/// order mark is not a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
}

impl Position {
    /// The first character.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The position at which the parser found an error.
    #[cfg(feature = "yaml")]
    pub(crate) fn of(error: &serde_yaml::Error) -> Self {
        error
            .location()
            .map_or(Self::START, |place| Self { line: place.line().max(1), column: place.column().max(1) })
    }
}

/// The text without a byte order mark, so that the first column is the first visible one.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}
