//! YAML: the only file that names `serde_yaml`.

use serde::de::DeserializeSeed as _;

use super::document::{Finder, Node, NodeSeed, Step};
use super::location::Position;

/// Reads a document. An empty one is nothing.
pub(super) fn parse(text: &str) -> Result<Node, (Position, String)> {
    let mut documents = serde_yaml::Deserializer::from_str(without_mark(text));
    let node = match documents.next() {
        None => Node::Null,
        Some(first) => NodeSeed.deserialize(first).map_err(|error| {
            let message = format!(
                "not valid YAML: {}: correct it there or just before, and put a text with special characters in quotes",
                without_places(&error.to_string())
            );
            (position(&error), message)
        })?,
    };
    if documents.next().is_some() {
        let message = "the file holds more than one document: keep one and remove the `---` between them";
        return Err((Position::START, message.to_owned()));
    }
    Ok(node)
}

/// Finds a part of the tree in the text, by reading it again and failing on that part.
pub(super) fn locate(text: &str, steps: &[Step]) -> Position {
    let Some(document) = serde_yaml::Deserializer::from_str(without_mark(text)).next() else {
        return Position::START;
    };
    match Finder(steps).deserialize(document) {
        Err(error) => position(&error),
        Ok(()) => Position::START,
    }
}

/// The text without the mark that some editors put at its beginning.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn position(error: &serde_yaml::Error) -> Position {
    error.location().map_or(Position::START, |place| Position {
        line: place.line().max(1),
        column: place.column().max(1),
    })
}

/// Drops every " at line N column N": the place is told already.
fn without_places(text: &str) -> String {
    let mut pieces = text.split(" at line ");
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit());
        let rest = rest.strip_prefix(" column ").unwrap_or(rest);
        kept.push_str(rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    kept
}
