//! A document before anything is known about it, and the ways to its parts.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

/// A value. It may hold secrets, hence no `Debug`.
#[derive(PartialEq)]
pub(super) enum Node {
    Null,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    /// Keys with their values, in order, doubled ones included.
    Map(Vec<(Node, Node)>),
    /// A value with a tag such as `!env`, which stands here without its exclamation mark.
    Tagged(String, Box<Node>),
}

impl Node {
    /// The kind of value, as it is named to the author of a document.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Boolean(_) => "true or false",
            Self::Integer(_) | Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
            Self::Tagged(..) => "a tagged value",
        }
    }
}

/// One step from a node to a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The key of an entry of a mapping.
    Key(usize),
    /// The value of an entry of a mapping.
    Value(usize),
    /// An item of a list.
    Item(usize),
}

/// Reads any value.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeSeed;

impl<'de> DeserializeSeed<'de> for NodeSeed {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(i64::try_from(value).map_or(Node::Number(f64::INFINITY), Node::Integer))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry_seed(self, self)? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Node, A::Error> {
        let (tag, content) = tagged.variant::<String>()?;
        let value = content.newtype_variant_seed(self)?;
        Ok(Node::Tagged(tag, Box::new(value)))
    }
}

/// Goes the steps and refuses what stands at their end, so that the parser's error has its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finder<'a>(pub(super) &'a [Step]);

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
