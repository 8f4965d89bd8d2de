//! JSON whose parts keep their text: everything that is not removed stays byte for byte.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use serde::de::Deserialize;
use serde::de::Deserializer;
use serde::de::Error as _;
use serde::de::IgnoredAny;
use serde::de::MapAccess;
use serde::de::SeqAccess;
use serde::de::Visitor;
use serde_json::value::RawValue;

/// Maximum number of entries of one object, and of tools of one list: the memory for each is larger
/// than the shortest entry.
const ENTRIES: usize = 10_000;

/// An object's entries in order, whose keys are distinct for every server.
pub(super) struct Object<'a>(Vec<Entry<'a>>);

pub(super) struct Entry<'a> {
    /// Folded, see [`fold`].
    pub(super) name: Cow<'a, str>,
    pub(super) value: &'a RawValue,
    key: &'a RawValue,
}

/// The reason why a text is not parsed.
#[derive(Debug)]
pub(super) enum JsonError {
    /// It is not JSON.
    Syntax,
    /// This key is duplicated.
    Twice(String),
    /// An object or a list of tools has more parts than any legitimate one.
    TooMany,
}

impl<'a> Object<'a> {
    /// Reads `raw`, which begins with a brace.
    pub(super) fn read(raw: &'a RawValue) -> Result<Self, JsonError> {
        let Pairs(pairs) = serde_json::from_str(raw.get()).map_err(|_| JsonError::Syntax)?;
        if pairs.len() > ENTRIES {
            return Err(JsonError::TooMany);
        }
        let mut entries = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            entries.push(Entry { name: name(key)?, value, key });
        }
        let mut seen = BTreeSet::new();
        match entries.iter().find(|entry| !seen.insert(entry.name.as_ref())) {
            Some(entry) => {
                Err(JsonError::Twice(text(entry.key).unwrap_or_default().chars().take(40).collect()))
            }
            None => Ok(Self(entries)),
        }
    }

    pub(super) fn entries(&self) -> &[Entry<'a>] {
        &self.0
    }

    pub(super) fn value(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|entry| entry.name == name).map(|entry| entry.value)
    }

    /// The string under this key; `None` for any other value.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.value(name).and_then(text)
    }
}

impl Entry<'_> {
    /// Its range in `whole`, including its key.
    pub(super) fn span(&self, whole: &str) -> Range<usize> {
        span(self.key, whole).start..span(self.value, whole).end
    }
}

/// The normalised form of a key: many servers ignore case, and Google's treat `fileUri` and
/// `file_uri` alike.
pub(super) fn fold(key: &str) -> String {
    let letters = key.chars().filter(|letter| *letter != '_');
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// A folded key; most are unchanged.
fn name(key: &RawValue) -> Result<Cow<'_, str>, JsonError> {
    let bare = key.get().strip_prefix('"').and_then(|key| key.strip_suffix('"'));
    match bare.filter(|key| key.bytes().all(|byte| byte.is_ascii_lowercase())) {
        Some(plain) => Ok(Cow::Borrowed(plain)),
        None => text(key).map(|key| Cow::Owned(fold(&key))).ok_or(JsonError::Syntax),
    }
}

/// The items of a list that cannot have many.
pub(super) fn list(raw: &RawValue) -> Result<Vec<&RawValue>, JsonError> {
    let mut items = Vec::new();
    each(raw, |item| {
        items.push(item);
        if items.len() > ENTRIES { Err(JsonError::TooMany) } else { Ok(()) }
    })?;
    Ok(items)
}

/// Gives every item of a list to `look`, until it fails.
pub(super) fn each<'a, E: From<JsonError>>(
    raw: &'a RawValue,
    look: impl FnMut(&'a RawValue) -> Result<(), E>,
) -> Result<(), E> {
    let mut failure = None;
    let items = Items { look, failure: &mut failure };
    let read = serde_json::Deserializer::from_str(raw.get()).deserialize_seq(items);
    match (failure, read) {
        (Some(failure), _) => Err(failure),
        (None, Err(_)) => Err(JsonError::Syntax.into()),
        (None, Ok(())) => Ok(()),
    }
}

/// A decoded string; `None` for any other value, or if it has an unpaired surrogate.
pub(super) fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// The range of `part` in `whole`.
pub(super) fn span(part: &RawValue, whole: &str) -> Range<usize> {
    let start = part.get().as_ptr().addr().saturating_sub(whole.as_ptr().addr());
    start..start.saturating_add(part.get().len())
}

pub(super) fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

pub(super) fn is_list(raw: &RawValue) -> bool {
    raw.get().starts_with('[')
}

pub(super) fn is_text(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

pub(super) fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// The ranges to remove so that only the kept parts of a list or object remain, with one comma
/// between each two.
pub(super) fn without(parts: &[(Range<usize>, bool)]) -> Vec<Range<usize>> {
    let mut gone = Vec::new();
    let mut last_kept_end = None;
    for (position, (part, kept)) in parts.iter().enumerate() {
        if *kept {
            last_kept_end = Some(part.end);
            continue;
        }
        gone.push(match (parts.get(position + 1), last_kept_end) {
            (Some((next, _)), _) => part.start..next.start,
            (None, Some(end)) => end..part.end,
            (None, None) => part.clone(),
        });
    }
    gone
}

/// `text` without these ranges, which may overlap.
pub(super) fn cut(text: &str, mut gone: Vec<Range<usize>>) -> Vec<u8> {
    gone.sort_by_key(|range| range.start);
    let mut rest = Vec::with_capacity(text.len());
    let mut at = 0;
    for range in gone {
        rest.extend(text.as_bytes().get(at..range.start).unwrap_or_default());
        at = at.max(range.end);
    }
    rest.extend(text.as_bytes().get(at..).unwrap_or_default());
    rest
}

/// The entries of an object, including duplicates.
struct Pairs<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
            if pairs.len() > ENTRIES {
                // The caller counts the entries again.
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(Pairs(pairs))
    }
}

struct Items<'f, F, E> {
    look: F,
    failure: &'f mut Option<E>,
}

impl<'de, F: FnMut(&'de RawValue) -> Result<(), E>, E> Visitor<'de> for Items<'_, F, E> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element()? {
            if let Err(failure) = (self.look)(item) {
                *self.failure = Some(failure);
                return Err(A::Error::custom("the look at an item failed"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_removed_parts_is_json() {
        let text = r#"{ "a" : 1 , "b":[2, 3 ,4 ] ,"\u0063" :5 }"#;
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        let object = Object::read(raw).unwrap();
        for (kept, expected) in [
            ([true, true, true], text),
            ([false, true, true], r#"{ "b":[2, 3 ,4 ] ,"\u0063" :5 }"#),
            ([true, false, true], r#"{ "a" : 1 , "\u0063" :5 }"#),
            ([true, true, false], r#"{ "a" : 1 , "b":[2, 3 ,4 ] }"#),
            ([true, false, false], r#"{ "a" : 1 }"#),
            ([false, false, true], r#"{ "\u0063" :5 }"#),
            ([false, false, false], "{  }"),
        ] {
            let parts: Vec<_> =
                object.entries().iter().zip(kept).map(|(entry, kept)| (entry.span(text), kept)).collect();
            assert_eq!(String::from_utf8(cut(text, without(&parts))).unwrap(), expected);
        }
    }

    #[test]
    fn keys_are_folded() {
        for (key, name) in [
            ("file_uri", "fileuri"),
            ("fileUri", "fileuri"),
            ("Tool\u{17f}", "tools"),
            ("mcp_ſervers", "mcpservers"),
        ] {
            assert_eq!(fold(key), name);
        }
    }

    #[test]
    fn duplicate_key_is_an_error() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":1}"#, r#"{"a_b":1,"aB":1}"#] {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            assert!(matches!(Object::read(raw), Err(JsonError::Twice(_))), "{text}");
        }
    }
}
