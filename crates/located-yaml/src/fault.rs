//! Why a text is not a document.

use crate::position::Position;

/// Why a text is not a document, where, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub position: Position,
    /// What is wrong and how to fix it, in lower case and without a full stop. It holds the
    /// parser's words where there are any.
    pub message: String,
}
