//! The error of a document.

use located_yaml::InvalidFile;
use located_yaml::Location;

/// What is wrong with a policy document, where, and how to fix it.
///
/// The message holds the words of the parser where there are any; no foreign error is kept as a source, so that no user
/// comes to depend on the library that parses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(InvalidFile);

impl ParseError {
    pub(super) fn new(location: &Location, message: &str) -> Self {
        Self(InvalidFile::new(location, message))
    }

    /// The label that was given for the document.
    #[must_use]
    pub fn file(&self) -> &str {
        self.0.location().file()
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.0.location().position().line
    }

    /// The column in characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.0.location().position().column
    }

    /// What is wrong and how to fix it.
    #[must_use]
    pub fn message(&self) -> &str {
        self.0.message()
    }
}
