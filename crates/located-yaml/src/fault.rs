//! Reasons why a text is not a document.

use crate::position::Position;

/// The reason why a text is not a document, its position, and the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its position.
    pub position: Position,
    /// The problem and its fix, in lower case and without a full stop. It includes the parser's
    /// message, if any.
    pub message: String,
}
