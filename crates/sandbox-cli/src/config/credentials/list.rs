//! Lists that are not empty.

use serde::Deserialize;

/// A list that says something.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Vec<T>", bound(deserialize = "T: Deserialize<'de>"))]
pub(super) struct NonEmpty<T>(pub(super) Vec<T>);

impl<T> TryFrom<Vec<T>> for NonEmpty<T> {
    type Error = &'static str;

    fn try_from(list: Vec<T>) -> Result<Self, &'static str> {
        if list.is_empty() {
            // The reader puts the name of the list before it.
            return Err(" is empty, so the credential would go nowhere: name at least one");
        }
        Ok(Self(list))
    }
}
