//! The error of a document.

use located_yaml::Position;

/// What is wrong with a policy document, where, and how to mend it.
///
/// The message holds the words of the parser where there are any; no foreign error is kept as a source, so that no user
/// comes to depend on the library that parses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{}:{}: {message}", position.line, position.column)]
pub struct ParseError {
    file: String,
    position: Position,
    message: String,
}

impl ParseError {
    pub(super) fn new(file: &str, position: Position, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            position,
            message: message.into(),
        }
    }

    /// The label that was given for the document.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.position.line
    }

    /// The column in characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.position.column
    }

    /// What is wrong and how to mend it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}
