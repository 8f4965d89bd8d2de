//! The JSON form.

use std::fmt;

use located_yaml::Location;
use located_yaml::Node;
use located_yaml::Position;
use located_yaml::Step;
use serde::Deserialize;
use serde::Deserializer;
use serde::de::MapAccess;
use serde::de::Visitor;
use serde_json::value::RawValue;

use super::document::from_tree;
use super::error::ParseError;
use crate::policy::Allowlist;

/// Reads the JSON form.
pub(crate) fn from_json(text: &str, file: &str) -> Result<Allowlist, ParseError> {
    // The mark that some editors put at the beginning of a file.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let invalid =
        |(position, message): (_, String)| ParseError::new(&Location::new(file, position), &message);
    let node = parse(text).map_err(invalid)?;
    from_tree(&node, file, |steps| locate(text, steps))
}

/// Writes the JSON form.
pub(crate) fn to_json(policy: &Allowlist) -> String {
    match serde_json::to_string_pretty(policy) {
        Ok(text) => text,
        Err(error) => unreachable!("a policy is made of texts and lists, which JSON can hold: {error}"),
    }
}

fn parse(text: &str) -> Result<Node, (Position, String)> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let node = Node::deserialize(&mut deserializer).map_err(|error| {
        let message = format!(
            "not valid JSON: {}: correct it there or just before",
            words(&error)
        );
        (position(text, &error), message)
    })?;
    deserializer.end().map_err(|error| {
        (
            position(text, &error),
            "a second document begins here: keep one JSON object in a file".to_owned(),
        )
    })?;
    Ok(node)
}

/// What the parser says, without the place, which is told already.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// The parser counts bytes, and column 0 for the end of a text that ends with a line break.
fn position(text: &str, error: &serde_json::Error) -> Position {
    let line_start: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    position_of(text, line_start + error.column().saturating_sub(1))
}

/// The place of a byte.
fn position_of(text: &str, offset: usize) -> Position {
    let before = text.get(..text.floor_char_boundary(offset)).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Position { line, column }
}

/// Finds a part of the tree in the text.
fn locate(text: &str, steps: &[Step]) -> Position {
    let mut here = text.trim_ascii_start();
    for step in steps {
        let Some(part) = part(here, *step) else { break };
        here = part;
    }
    position_of(text, here.as_ptr().addr().saturating_sub(text.as_ptr().addr()))
}

/// A part of a value, as the slice of the text it stands in.
fn part(value: &str, step: Step) -> Option<&str> {
    match step {
        Step::Item(index) => {
            let items: Vec<&RawValue> = serde_json::from_str(value).ok()?;
            items.get(index).map(|item| item.get())
        }
        Step::Key(index) | Step::Value(index) => {
            let Entries(entries) = serde_json::from_str(value).ok()?;
            let (key, value) = entries.get(index)?;
            Some(if matches!(step, Step::Key(_)) {
                key.get()
            } else {
                value.get()
            })
        }
    }
}

/// The entries of an object, neither keys nor values read.
struct Entries<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Vec<(&'de RawValue, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }

        deserializer.deserialize_map(EntriesVisitor).map(Entries)
    }
}

#[cfg(test)]
mod tests;
