//! Lists that are not empty.

use serde::Deserialize;

/// A list with at least one element.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Vec<T>", bound(deserialize = "T: Deserialize<'de>"))]
pub(super) struct NonEmpty<T>(pub(super) Vec<T>);

impl<T> TryFrom<Vec<T>> for NonEmpty<T> {
    type Error = &'static str;

    fn try_from(list: Vec<T>) -> Result<Self, &'static str> {
        if list.is_empty() {
            // The reader prefixes the name of the list.
            return Err(" is empty, so the credential would not be sent: name at least one");
        }
        Ok(Self(list))
    }
}
