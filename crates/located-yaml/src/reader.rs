//! Converts a tree to typed values, with the positions of mismatches.

use std::collections::BTreeSet;
use std::iter::Enumerate;
use std::marker::PhantomData;
use std::slice::Iter;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::error::Mismatch;
use crate::location::Source;
#[cfg(feature = "yaml")]
use crate::location::{InvalidFile, Location};
use crate::node::{Node, Step};
#[cfg(feature = "yaml")]
use crate::parse::parse;
use crate::spanned::{self, announce};

/// Reads a YAML document; `file` is its name in errors. An empty document is an empty mapping.
///
/// A duplicate key, and one without a value, is an error for every type. If a message of the type
/// begins with a space, the reader prepends its subject: "`ports` is empty".
///
/// # Errors
///
/// If the text is not such a document: the error has the position and the fix, and quotes no value
/// of an unexpected type.
#[cfg(feature = "yaml")]
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, InvalidFile> {
    read_as(&Source::new(file, text, false), file, text)
}

/// Like [`read`], for documents whose texts become arguments, variables and paths: no text may
/// contain a NUL character.
///
/// # Errors
///
/// Like [`read`].
#[cfg(feature = "yaml")]
pub fn read_without_nul<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, InvalidFile> {
    read_as(&Source::new(file, text, true), file, text)
}

#[cfg(feature = "yaml")]
fn read_as<T: DeserializeOwned>(source: &Source, file: &str, text: &str) -> Result<T, InvalidFile> {
    let node = match parse(text) {
        Ok(Node::Null) => Node::Map(Vec::new()),
        Ok(node) => node,
        Err(error) => {
            return Err(InvalidFile::new(&Location::new(file, error.position), error.message));
        }
    };
    Cursor::root(&node, Some(source))
        .give(PhantomData::<T>)
        .map_err(|mismatch| InvalidFile::new(&source.part(mismatch.steps()), mismatch.message()))
}

/// Reads a tree of any origin.
///
/// # Errors
///
/// Like [`read`]: the problem, and the path to it.
pub fn from_node<T: DeserializeOwned>(node: &Node) -> Result<T, Mismatch> {
    Cursor::root(node, None).give(PhantomData::<T>)
}

/// A node and its path.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    node: &'a Node,
    source: Option<&'a Source>,
    parent: Option<(&'a Cursor<'a>, Step)>,
    /// The key that it is the value of.
    name: Option<&'a str>,
}

impl<'a> Cursor<'a> {
    fn root(node: &'a Node, source: Option<&'a Source>) -> Self {
        Self { node, source, parent: None, name: None }
    }

    fn part<'b>(&'b self, node: &'b Node, step: Step, name: Option<&'b str>) -> Cursor<'b> {
        Cursor { node, source: self.source, parent: Some((self, step)), name }
    }

    /// The path to it from the root.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut place = self;
        while let Some((parent, step)) = place.parent {
            steps.push(step);
            place = parent;
        }
        steps.reverse();
        steps
    }

    /// Its name in messages.
    fn subject(&self) -> String {
        match (self.name, self.parent) {
            (Some(name), _) => format!("`{}`", name.escape_debug()),
            (None, Some((parent, Step::Item(_)))) => format!("an item of {}", parent.subject()),
            (None, Some(_)) => "a key".to_owned(),
            (None, None) => "the document".to_owned(),
        }
    }

    /// An error of a value gets the value's position, unless a part of it has its own error.
    fn give<'de, S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Mismatch> {
        seed.deserialize(self).map_err(|mismatch| self.locate_error(mismatch))
    }

    fn locate_error(&self, mismatch: Mismatch) -> Mismatch {
        mismatch.at(|| self.steps(), || self.subject())
    }

    fn visit<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.node {
            Node::Null => visitor.visit_unit(),
            Node::Boolean(value) => visitor.visit_bool(*value),
            Node::Integer(value) => visitor.visit_i64(*value),
            Node::Number(value) => visitor.visit_f64(*value),
            Node::Text(text) if text.contains('\0') && self.source.is_some_and(Source::refuses_nul) => {
                Err(Mismatch::custom(" must not have NUL characters: remove them"))
            }
            Node::Text(text) => visitor.visit_str(text),
            Node::List(items) => visitor.visit_seq(Items { list: self, items: items.iter().enumerate() }),
            Node::Map(entries) => visitor.visit_map(Fields {
                map: self,
                entries: entries.iter().enumerate(),
                seen: BTreeSet::new(),
                value: None,
            }),
            Node::Tagged(tag, value) => {
                visitor.visit_enum(Variant { name: tag, value: Some(Cursor { node: value, ..*self }) })
            }
        }
    }

    /// A choice: a text, or a mapping with one entry.
    fn visit_choice<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.node {
            Node::Text(name) => visitor.visit_enum(Variant { name, value: None }),
            Node::Map(entries) => match entries.as_slice() {
                [(Node::Text(name), value)] if !matches!(value, Node::Null) => visitor
                    .visit_enum(Variant { name, value: Some(self.part(value, Step::Value(0), Some(name))) }),
                [_] => self.visit(visitor),
                [] => Err(Mismatch::custom(" is empty: give it one entry")),
                [_, (key, _), ..] => {
                    let message = format!("{} has more than one entry: keep one of them", self.subject());
                    Err(self.part(key, Step::Key(1), None).locate_error(Mismatch::custom(message)))
                }
            },
            _ => Err(Mismatch::invalid_type(self.unexpected(), &"a mapping with one entry")),
        }
    }

    fn unexpected(&self) -> Unexpected<'_> {
        Unexpected::Other(self.node.kind())
    }
}

impl<'de> Deserializer<'de> for Cursor<'_> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        if let Some(source) = self.source.filter(|_| name == spanned::NAME) {
            announce(source.part(self.steps()));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.visit_choice(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        // Derived types would accept a list instead of a mapping, value by value.
        if matches!(self.node, Node::List(_)) {
            return Err(Mismatch::invalid_type(Unexpected::Seq, &visitor));
        }
        self.visit(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

struct Items<'a> {
    list: &'a Cursor<'a>,
    items: Enumerate<Iter<'a, Node>>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Mismatch;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mismatch> {
        let Some((index, node)) = self.items.next() else {
            return Ok(None);
        };
        self.list.part(node, Step::Item(index), None).give(seed).map(Some)
    }
}

struct Fields<'a> {
    map: &'a Cursor<'a>,
    entries: Enumerate<Iter<'a, (Node, Node)>>,
    seen: BTreeSet<&'a str>,
    /// The value of the key that was read last.
    value: Option<Cursor<'a>>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        let Some((index, (key, value))) = self.entries.next() else {
            return Ok(None);
        };
        let place = self.map.part(key, Step::Key(index), None);
        let Node::Text(name) = key else {
            return Err(place.locate_error(Mismatch::invalid_type(place.unexpected(), &"a text")));
        };
        let known = place.give(seed)?;
        let shown = name.escape_debug();
        if !self.seen.insert(name) {
            let message = format!("`{shown}` is here a second time: merge the two");
            return Err(place.locate_error(Mismatch::custom(message)));
        }
        if matches!(value, Node::Null) {
            let message = format!("`{shown}` has no value: give it one or remove the key");
            return Err(place.locate_error(Mismatch::custom(message)));
        }
        self.value = Some(self.map.part(value, Step::Value(index), Some(name)));
        Ok(Some(known))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        match self.value.take() {
            Some(value) => value.give(seed),
            None => Err(Mismatch::custom("a value is read before its key")),
        }
    }
}

/// A tag, or a choice, with its value.
struct Variant<'a> {
    name: &'a str,
    value: Option<Cursor<'a>>,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Mismatch;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Mismatch> {
        let name: StrDeserializer<'_, Mismatch> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Mismatch;

    fn unit_variant(self) -> Result<(), Mismatch> {
        match self.value {
            None => Ok(()),
            Some(place) => Err(place.locate_error(Mismatch::invalid_type(place.unexpected(), &"nothing"))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mismatch> {
        match self.value {
            Some(place) => place.give(seed),
            None => {
                Err(Mismatch::custom(format!("`{}` has no value: give it one", self.name.escape_debug())))
            }
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Mismatch> {
        Err(Mismatch::custom(NO_FIELDS))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Mismatch> {
        Err(Mismatch::custom(NO_FIELDS))
    }
}

const NO_FIELDS: &str = "the type is wrong: a choice holds one value, which may be a structure";

#[cfg(test)]
mod tests;
