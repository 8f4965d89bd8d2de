//! The YAML form: the only file that names `serde_yaml`.

use std::fmt;

use serde::de::DeserializeSeed;
use serde::de::Deserializer;
use serde::de::Error;
use serde::de::IgnoredAny;
use serde::de::MapAccess;
use serde::de::SeqAccess;
use serde::de::Visitor;

use super::document;
use super::error::ParseError;
use super::node::Budget;
use super::node::Node;
use super::node::NodeSeed;
use super::node::Step;
use super::position::Position;
use super::position::without_byte_order_mark;
use crate::policy::Allowlist;

/// What a document may hold beyond its own size, in values and bytes, by naming parts of it again.
const ALIAS_BUDGET: usize = 1 << 20;

/// Reads the YAML form.
pub(crate) fn from_yaml(text: &str, file: &str) -> Result<Allowlist, ParseError> {
    let text = without_byte_order_mark(text);
    let node = parse(text).map_err(|(position, message)| ParseError::new(file, position, message))?;
    // An empty document is an empty policy.
    let node = if matches!(node, Node::Null) {
        Node::Map(Vec::new())
    } else {
        node
    };
    document::build(&node)
        .map_err(|problem| ParseError::new(file, locate(text, &problem.steps), problem.message))
}

/// Writes the YAML form.
pub(crate) fn to_yaml(policy: &Allowlist) -> String {
    match serde_yaml::to_string(policy) {
        Ok(text) => text,
        Err(error) => unreachable!("a policy is made of texts and lists, which YAML can hold: {error}"),
    }
}

fn parse(text: &str) -> Result<Node, (Position, String)> {
    if let Some((offset, character)) = text
        .char_indices()
        .find(|(_, character)| !is_printable(*character))
    {
        let position = position_of_offset(text, offset);
        return Err((
            position,
            format!("YAML cannot hold the character {character:?}: remove it"),
        ));
    }
    let budget = Budget::new(text.len().saturating_mul(2).saturating_add(ALIAS_BUDGET));
    let mut documents = serde_yaml::Deserializer::from_str(text);
    let node = match documents.next() {
        None => Node::Null,
        Some(first) => NodeSeed(&budget).deserialize(first).map_err(|error| {
            let message = if budget.is_exhausted() {
                "the aliases stand for more than a policy can hold: write fewer rules or wider patterns"
                    .to_owned()
            } else {
                syntax_message(text, &error)
            };
            (position(&error), message)
        })?,
    };
    if documents.next().is_some() {
        let message = "a second document begins here: keep one document in a file";
        return Err((second_document(text), message.to_owned()));
    }
    Ok(node)
}

/// What the parser says, and the mend for the faults that everyone makes once.
fn syntax_message(text: &str, error: &serde_yaml::Error) -> String {
    let words = without_places(&error.to_string());
    let found = error
        .location()
        .and_then(|place| text.as_bytes().get(place.index()));
    let mend = match found {
        Some(b'\t') => "indent with spaces, not tabs",
        _ if words.contains("alias") || words.contains("anchor") => {
            "put a pattern that begins with `*` or `&` in quotes"
        }
        Some(b'*' | b'&' | b'@' | b'`' | b'%' | b'!') => {
            "put a text that begins with this character in quotes"
        }
        _ => "correct it there or just before, and put a text with special characters in quotes",
    };
    format!("not valid YAML: {words}: {mend}")
}

/// Drops every " at line N column N": the place is told already.
fn without_places(text: &str) -> String {
    let mut pieces = text.split(" at line ");
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|character: char| character.is_ascii_digit());
        let rest = rest.strip_prefix(" column ").unwrap_or(rest);
        kept.push_str(rest.trim_start_matches(|character: char| character.is_ascii_digit()));
    }
    kept
}

fn position(error: &serde_yaml::Error) -> Position {
    error.location().map_or(Position::START, |place| Position {
        line: place.line().max(1),
        column: place.column().max(1),
    })
}

/// The characters that YAML allows in a file.
fn is_printable(character: char) -> bool {
    matches!(
        character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}'
            | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..='\u{10ffff}'
    )
}

/// The lines as YAML counts them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
        .scan(false, |after_return, line| {
            // `\r\n` is one line break: the piece with `\n` alone belongs to the line before.
            let continues = *after_return && line == "\n";
            *after_return = line.ends_with('\r');
            Some(if continues { "" } else { line })
        })
}

fn position_of_offset(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
    let line = lines(before).filter(|line| line.ends_with(breaks)).count() + 1;
    let column = before.rsplit(breaks).next().unwrap_or_default().chars().count() + 1;
    Position { line, column }
}

/// Where the second document begins: at its `---`, which cannot be anything else at the beginning of a line.
///
/// The first `---` belongs to the first document if nothing but comments and directives stands before it.
fn second_document(text: &str) -> Position {
    let mut nothing_yet = true;
    for (index, line) in lines(text).filter(|line| !line.is_empty()).enumerate() {
        let marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.chars().next().is_none_or(char::is_whitespace));
        if marker && !nothing_yet {
            return Position {
                line: index + 1,
                column: 1,
            };
        }
        let content = line.trim_start();
        nothing_yet &= !marker && (content.is_empty() || content.starts_with('#') || line.starts_with('%'));
    }
    Position::START
}

/// Finds a part of the tree in the text, by reading it again and failing on that part.
///
/// What an alias stands for is found where it is written out, since that is where it can be mended.
fn locate(text: &str, steps: &[Step]) -> Position {
    let Some(document) = serde_yaml::Deserializer::from_str(text).next() else {
        return Position::START;
    };
    match Finder(steps).deserialize(document) {
        Err(error) => position(&error),
        Ok(()) => Position::START,
    }
}

/// Goes the steps and refuses what stands at their end, so that the error has its place.
#[derive(Clone, Copy)]
struct Finder<'a>(&'a [Step]);

impl<'de> DeserializeSeed<'de> for Finder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Finder<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("something else")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if let [Step::Item(index), rest @ ..] = self.0 {
            for _ in 0..*index {
                items.next_element::<IgnoredAny>()?;
            }
            items.next_element_seed(Finder(rest))?;
        }
        Err(A::Error::custom("here"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        if let [step @ (Step::Key(index) | Step::Value(index)), rest @ ..] = self.0 {
            for _ in 0..*index {
                entries.next_entry::<IgnoredAny, IgnoredAny>()?;
            }
            if matches!(step, Step::Key(_)) {
                entries.next_key_seed(Finder(&[]))?;
            }
            entries.next_key::<IgnoredAny>()?;
            entries.next_value_seed(Finder(rest))?;
        }
        Err(A::Error::custom("here"))
    }
}

#[cfg(test)]
mod tests;
