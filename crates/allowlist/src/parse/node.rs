//! A document before anything is known about it: whatever stood there, duplicate keys included.

use std::cell::Cell;
use std::fmt;

use serde::de::DeserializeSeed;
use serde::de::Deserializer;
use serde::de::EnumAccess;
use serde::de::Error;
use serde::de::IgnoredAny;
use serde::de::MapAccess;
use serde::de::SeqAccess;
use serde::de::VariantAccess;
use serde::de::Visitor;

/// A value of either format.
#[derive(Debug)]
pub(super) enum Node {
    Null,
    Boolean,
    Number,
    Text(String),
    List(Vec<Node>),
    /// Keys with their values, in order.
    Map(Vec<(Node, Node)>),
    /// A YAML value with a tag such as `!env`.
    Tagged,
}

impl Node {
    /// The kind of value, as it is named to the author of a document.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Boolean => "true or false",
            Self::Number => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
            Self::Tagged => "a tagged value",
        }
    }
}

/// One step from a node to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The key of an entry of a mapping.
    Key(usize),
    /// The value of an entry of a mapping.
    Value(usize),
    /// An item of a list.
    Item(usize),
}

/// How much a document may hold, in values and bytes of text: aliases let a small file stand for a huge one.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn new(units: usize) -> Self {
        Self(Cell::new(units))
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.0.get() == 0
    }

    fn spend<E: Error>(&self, units: usize) -> Result<(), E> {
        self.0.set(self.0.get().saturating_sub(units));
        if self.is_exhausted() {
            Err(E::custom("the document is too large"))
        } else {
            Ok(())
        }
    }
}

/// Reads any value; fails only where the parser does or where the budget ends.
#[derive(Clone, Copy)]
pub(super) struct NodeSeed<'a>(pub(super) &'a Budget);

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.0.spend(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Boolean)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        self.0.spend(text.len())?;
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
        let (_, content) = tagged.variant::<IgnoredAny>()?;
        content.newtype_variant::<IgnoredAny>()?;
        Ok(Node::Tagged)
    }
}
