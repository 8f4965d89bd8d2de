//! Places in the configuration, and what is wrong there.

use std::fmt;
use std::sync::Arc;

use located_yaml::{Position, Step, locate};

/// A place in a file, as its author is told of it: `file:line:column`. `Debug` never shows the file's text.
///
/// Most places are never told, and each is found by reading the text again: that is done when it is asked for.
#[derive(Clone)]
pub(crate) struct Location {
    file: Arc<str>,
    place: Place,
}

#[derive(Clone)]
enum Place {
    Known(Position),
    /// The way to it in the tree of this text.
    Found(Arc<str>, Vec<Step>),
}

impl Location {
    pub(crate) fn new(file: &str, position: Position) -> Self {
        Self {
            file: file.into(),
            place: Place::Known(position),
        }
    }

    /// What `steps` lead to in the tree of `text`, which is that of `file`.
    pub(super) fn of_part(file: &Arc<str>, text: &Arc<str>, steps: Vec<Step>) -> Self {
        Self {
            file: Arc::clone(file),
            place: Place::Found(Arc::clone(text), steps),
        }
    }

    /// The file, as it was called when it was read.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Line and column, both from 1.
    pub(crate) fn position(&self) -> Position {
        match &self.place {
            Place::Known(position) => *position,
            Place::Found(text, steps) => locate(text, steps),
        }
    }
}

impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file && self.position() == other.position()
    }
}

impl Eq for Location {}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position();
        write!(f, "{}:{line}:{column}", self.file)
    }
}

/// What is wrong with a configuration file, where, and how to fix it. It never quotes the value of a secret, and has no control characters: a
/// terminal would obey those of a file that nobody has read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {message}")]
pub(crate) struct InvalidFile {
    pub(crate) location: Location,
    pub(crate) message: String,
}

impl InvalidFile {
    pub(crate) fn new(location: &Location, message: impl Into<String>) -> Self {
        let mut printable = String::new();
        for c in message.into().chars() {
            if c.is_control() {
                printable.extend(c.escape_default());
            } else {
                printable.push(c);
            }
        }
        Self {
            location: location.clone(),
            message: printable,
        }
    }
}
