//! Parses a text to a tree.

use serde::de::DeserializeSeed as _;

use crate::fault::Fault;
use crate::lines::{position_of, second_document};
use crate::node::{Budget, Node, NodeSeed};
use crate::position::{Position, without_mark};
use crate::tags::unknown_tag;

/// Maximum expansion of a document by aliases beyond twice its own size, in values and bytes.
const ALIAS_BUDGET: usize = 1 << 20;

/// Reads a document. An empty one is [`Node::Null`].
///
/// # Errors
///
/// If the text is not YAML, holds more than one document, or its aliases expand to too much.
pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    let text = without_mark(text);
    let unprintable = text.char_indices().find(|(_, character)| !is_printable(*character));
    if let Some((offset, character)) = unprintable {
        return Err(Fault {
            position: position_of(text, offset),
            message: format!("YAML does not allow the character {character:?}: remove it"),
        });
    }
    let budget = Budget::new(text.len().saturating_mul(2).saturating_add(ALIAS_BUDGET));
    let mut documents = serde_yaml::Deserializer::from_str(text);
    let node = match documents.next() {
        None => Node::Null,
        Some(first) => NodeSeed(&budget).deserialize(first).map_err(|error| Fault {
            position: Position::of(&error),
            message: if budget.is_exhausted() {
                "the aliases expand to more than a document may hold: use fewer".to_owned()
            } else {
                syntax_message(text, &error)
            },
        })?,
    };
    if documents.next().is_some() {
        return Err(Fault {
            position: second_document(text),
            message: "a second document begins here: keep one document in a file".to_owned(),
        });
    }
    match unknown_tag(text) {
        Some(error) => Err(error),
        None => Ok(node),
    }
}

/// The parser's message, with a hint for common mistakes.
fn syntax_message(text: &str, error: &serde_yaml::Error) -> String {
    let words = without_positions(&error.to_string());
    let found = error.location().and_then(|place| text.as_bytes().get(place.index()));
    let hint = match found {
        Some(b'\t') => "indent with spaces, not tabs",
        _ if words.contains("alias") || words.contains("anchor") => {
            "put a text that begins with `*` or `&` in quotes"
        }
        Some(b'*' | b'&' | b'@' | b'`' | b'%' | b'!') => {
            "put a text that begins with this character in quotes"
        }
        _ => "correct it there or just before, and put a text with special characters in quotes",
    };
    format!("not valid YAML: {words}: {hint}")
}

/// Drops every " at line N column N": the position is reported separately.
fn without_positions(text: &str) -> String {
    let mut pieces = text.split(" at line ");
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|character: char| character.is_ascii_digit());
        let rest = rest.strip_prefix(" column ").unwrap_or(rest);
        kept.push_str(rest.trim_start_matches(|character: char| character.is_ascii_digit()));
    }
    kept
}

/// The characters that YAML allows in a file.
fn is_printable(character: char) -> bool {
    matches!(
        character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}'
            | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}'
    )
}

#[cfg(test)]
mod tests;
