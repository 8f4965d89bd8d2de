//! Places in the configuration, and what is wrong there.

use std::fmt;

use located_yaml::Position;

/// A place in a file, as its author is told of it: `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    file: String,
    position: Position,
}

impl Location {
    pub(super) fn new(file: &str, position: Position) -> Self {
        Self {
            file: file.to_owned(),
            position,
        }
    }

    /// The file, as it was called when it was read.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// From 1.
    pub(crate) fn line(&self) -> usize {
        self.position.line
    }

    /// From 1.
    pub(crate) fn column(&self) -> usize {
        self.position.column
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position;
        write!(f, "{}:{line}:{column}", self.file)
    }
}

/// What is wrong with a configuration file, where, and how to mend it. It never quotes the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {message}")]
pub(crate) struct InvalidFile {
    pub(crate) location: Location,
    pub(crate) message: String,
}

impl InvalidFile {
    pub(crate) fn new(location: &Location, message: impl Into<String>) -> Self {
        Self {
            location: location.clone(),
            message: message.into(),
        }
    }
}
