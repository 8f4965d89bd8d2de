//! The JSON form.

use located_yaml::InvalidFile;
use located_yaml::Location;
use located_yaml::Node;
use located_yaml::Position;
use serde::Deserialize as _;

use super::yaml::from_tree;
use crate::policy::Allowlist;

impl Allowlist {
    /// Reads the JSON form; `file` only labels errors.
    ///
    /// # Errors
    ///
    /// Like [`Allowlist::from_yaml`].
    pub fn from_json(text: &str, file: &str) -> Result<Self, InvalidFile> {
        // Some editors begin files with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let invalid =
            |(position, message): (_, String)| InvalidFile::new(&Location::new(file, position), message);
        from_tree(&parse(text).map_err(invalid)?, text, file)
    }

    /// Writes the JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        match serde_json::to_string_pretty(self) {
            Ok(text) => text,
            Err(error) => unreachable!("texts and lists of a policy are valid JSON: {error}"),
        }
    }
}

fn parse(text: &str) -> Result<Node, (Position, String)> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let node = Node::deserialize(&mut deserializer).map_err(|error| {
        let message = format!("not valid JSON: {}: correct it there or just before", words(&error));
        (position(text, &error), message)
    })?;
    deserializer.end().map_err(|error| {
        (position(text, &error), "a second document begins here: keep one JSON object in a file".to_owned())
    })?;
    Ok(node)
}

/// The parser's message without the position, which is reported separately.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// The parser counts bytes, and reports column 0 for the end of a text that ends with a line break.
fn position(text: &str, error: &serde_json::Error) -> Position {
    let line_start: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    position_of(text, line_start + error.column().saturating_sub(1))
}

/// The position of a byte.
fn position_of(text: &str, offset: usize) -> Position {
    let before = text.get(..text.floor_char_boundary(offset)).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Position { line, column }
}

#[cfg(test)]
mod tests;
