//! An untyped document.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

/// A value. It can be deserialized from any self-describing format of serde, such as JSON.
#[derive(Clone, PartialEq)]
pub enum Node {
    /// `null`, `~`, or an empty value.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number of 64 bits.
    Integer(i64),
    /// Any other number. One that is too large is infinite.
    Number(f64),
    /// A text, quoted or not.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys with their values, in order, including duplicate keys.
    Map(Vec<(Node, Node)>),
    /// A value with a tag such as `!env`, stored without its exclamation mark.
    Tagged(String, Box<Node>),
}

impl Node {
    /// The kind of value, as named in messages: `a list`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
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
pub enum Step {
    /// The key of an entry of a mapping, counted from 0.
    Key(usize),
    /// The value of an entry of a mapping.
    Value(usize),
    /// An item of a list.
    Item(usize),
}

/// Maximum size of a document, in values and bytes of text: with aliases, a small file can expand
/// to a huge one.
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    pub(crate) fn new(units: usize) -> Self {
        Self(Cell::new(units))
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.0.get() == 0
    }

    fn spend<E: Error>(&self, units: usize) -> Result<(), E> {
        self.0.set(self.0.get().saturating_sub(units));
        if self.is_exhausted() { Err(E::custom("the document is too large")) } else { Ok(()) }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NodeSeed(&Budget::new(usize::MAX)).deserialize(deserializer)
    }
}

/// Reads any value; fails only if the parser does or the budget is exhausted.
#[derive(Clone, Copy)]
pub(crate) struct NodeSeed<'a>(pub(crate) &'a Budget);

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.0.spend(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
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

    fn visit_i128<E: Error>(self, value: i128) -> Result<Node, E> {
        Ok(integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(integer(value))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Node, E> {
        Ok(integer(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value))
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
        let (tag, content) = tagged.variant::<String>()?;
        let value = content.newtype_variant_seed(self)?;
        Ok(Node::Tagged(tag, Box::new(value)))
    }
}

fn integer(value: impl TryInto<i64>) -> Node {
    value.try_into().map_or(Node::Number(f64::INFINITY), Node::Integer)
}
