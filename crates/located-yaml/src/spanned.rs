//! Values with their positions.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::location::Location;

/// The name by which a [`Spanned`] requests its position from the reader.
pub(crate) const NAME: &str = "$located_yaml::Spanned";

thread_local! {
    // The data model of serde cannot carry a location, so the reader stores it here for the next
    // value.
    static NEXT: Cell<Option<Location>> = const { Cell::new(None) };
}

/// A value and its position. Only [`read`](crate::read) returns such values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spanned<T> {
    value: T,
    location: Location,
}

impl<T> Spanned<T> {
    /// A value at `location`.
    #[must_use]
    pub fn new(value: T, location: Location) -> Self {
        Self { value, location }
    }

    /// Its position.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The value alone.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Stores the position of the value that is read next.
pub(crate) fn announce(location: Location) {
    NEXT.set(Some(location));
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpannedVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for SpannedVisitor<T> {
            type Value = Spanned<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_newtype_struct<D: Deserializer<'de>>(
                self,
                deserializer: D,
            ) -> Result<Spanned<T>, D::Error> {
                let location = NEXT.take();
                let location = location.ok_or_else(|| D::Error::custom("this format has no places"))?;
                let value = T::deserialize(deserializer)?;
                Ok(Spanned { value, location })
            }
        }

        deserializer.deserialize_newtype_struct(NAME, SpannedVisitor(PhantomData))
    }
}

/// A mapping with any keys, in the order of the document. Each key has its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries<K, V>(Vec<(Spanned<K>, V)>);

impl<K, V> Default for Entries<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K, V> IntoIterator for Entries<K, V> {
    type Item = (Spanned<K>, V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Entries<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<K, V> {
            type Value = Entries<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}
