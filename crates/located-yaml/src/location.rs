//! Positions in documents, and problems there.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "yaml")]
use crate::locate::locate;
use crate::node::Step;
use crate::position::Position;

/// A position in a file: `file:line:column`. `Debug` never shows the file's text.
///
/// Most positions are never reported, and finding one requires parsing the text again, so it is
/// computed on demand.
#[derive(Clone)]
pub struct Location {
    file: Arc<str>,
    origin: Origin,
}

#[derive(Clone)]
enum Origin {
    Known(Position),
    /// The path to it in the tree of this text.
    #[cfg(feature = "yaml")]
    Part(Arc<str>, Vec<Step>),
}

/// The source of a tree. Without the text parser there is none.
#[cfg(not(feature = "yaml"))]
pub(crate) enum Source {}

#[cfg(not(feature = "yaml"))]
impl Source {
    pub(crate) fn part(&self, _steps: Vec<Step>) -> Location {
        match *self {}
    }

    pub(crate) fn refuses_nul(&self) -> bool {
        match *self {}
    }
}

/// The source of a tree.
#[cfg(feature = "yaml")]
pub(crate) struct Source {
    file: Arc<str>,
    text: Arc<str>,
    /// Whether a text with a NUL character is an error.
    refuses_nul: bool,
}

#[cfg(feature = "yaml")]
impl Source {
    pub(crate) fn new(file: &str, text: &str, refuses_nul: bool) -> Self {
        Self { file: file.into(), text: text.into(), refuses_nul }
    }

    /// The part at the path `steps`.
    pub(crate) fn part(&self, steps: Vec<Step>) -> Location {
        Location { file: Arc::clone(&self.file), origin: Origin::Part(Arc::clone(&self.text), steps) }
    }

    pub(crate) fn refuses_nul(&self) -> bool {
        self.refuses_nul
    }
}

impl Location {
    /// A position that is already known.
    #[must_use]
    pub fn new(file: &str, position: Position) -> Self {
        Self { file: file.into(), origin: Origin::Known(position) }
    }

    /// The part at the path `steps` in the tree of `text`, which is that of `file`.
    #[cfg(feature = "yaml")]
    #[must_use]
    pub fn of_part(file: &str, text: &str, steps: Vec<Step>) -> Self {
        Source::new(file, text, false).part(steps)
    }

    /// The name of the file, as given when it was read.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Line and column, both from 1.
    #[must_use]
    pub fn position(&self) -> Position {
        match &self.origin {
            Origin::Known(position) => *position,
            #[cfg(feature = "yaml")]
            Origin::Part(text, steps) => locate(text, steps),
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

/// A problem with a file, its position, and the fix. It has no control characters: a terminal would
/// obey those of an untrusted file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {message}")]
pub struct InvalidFile {
    location: Location,
    message: String,
}

impl InvalidFile {
    /// The message is in lower case and without a full stop.
    #[must_use]
    pub fn new(location: &Location, message: impl Into<String>) -> Self {
        let mut printable = String::new();
        for c in message.into().chars() {
            if c.is_control() {
                printable.extend(c.escape_default());
            } else {
                printable.push(c);
            }
        }
        Self { location: location.clone(), message: printable }
    }

    /// Its position.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.location.position().line
    }

    /// The column in characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.location.position().column
    }

    /// The problem and its fix.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}
