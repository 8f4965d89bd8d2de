//! Finds the position of a part of the tree in the text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::node::Step;
use crate::position::{Position, without_mark};

/// Finds the part at the path `steps` in the tree that [`crate::parse`] made of `text`; if it does
/// not exist, the last node on the path.
///
/// The value of an alias is located at its anchor, where it can be fixed.
pub(crate) fn locate(text: &str, steps: &[Step]) -> Position {
    // Parses the text again and fails on that part: the parser reports positions for errors only.
    let Some(document) = serde_yaml::Deserializer::from_str(without_mark(text)).next() else {
        return Position::START;
    };
    match Finder(steps).deserialize(document) {
        Err(error) => Position::of(&error),
        Ok(()) => Position::START,
    }
}

/// Follows the steps and refuses the value at their end, so that the error has its position.
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

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something else")
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
            // The parser panics if more items are requested than exist.
            for _ in 0..*index {
                if entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_none() {
                    return Err(A::Error::custom("here"));
                }
            }
            if matches!(step, Step::Key(_)) {
                entries.next_key_seed(Finder(&[]))?;
            } else if entries.next_key::<IgnoredAny>()?.is_some() {
                entries.next_value_seed(Finder(rest))?;
            }
        }
        Err(A::Error::custom("here"))
    }
}
