//! Reads typed fields out of a JSON object: absent and `null` are the same, another type is an
//! error.

use serde_json::Map;
use serde_json::Value;

/// A field has the wrong type. Its block or event becomes unknown, so no details are needed.
#[derive(Debug)]
pub(crate) struct WrongType;

/// The fields of one object.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(crate) fn new(object: &'a Map<String, Value>) -> Self {
        Self(object)
    }

    /// The field, unless it is `null`.
    pub(crate) fn value(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn string(self, name: &str) -> Result<Option<String>, WrongType> {
        self.typed(name, |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn boolean(self, name: &str) -> Result<Option<bool>, WrongType> {
        self.typed(name, Value::as_bool)
    }

    pub(crate) fn float(self, name: &str) -> Result<Option<f64>, WrongType> {
        self.typed(name, Value::as_f64)
    }

    /// A whole number; saturates at the limits of the type.
    pub(crate) fn count(self, name: &str) -> Result<Option<u64>, WrongType> {
        self.typed(name, saturated)
    }

    /// An HTTP status; a number out of range never becomes a valid status.
    pub(crate) fn status(self, name: &str) -> Result<Option<u16>, WrongType> {
        Ok(self.count(name)?.map(|status| u16::try_from(status).unwrap_or(u16::MAX)))
    }

    pub(crate) fn object(self, name: &str) -> Result<Option<&'a Map<String, Value>>, WrongType> {
        self.typed(name, Value::as_object)
    }

    /// A list of strings; empty if absent.
    pub(crate) fn strings(self, name: &str) -> Result<Vec<String>, WrongType> {
        let list = self.typed(name, Value::as_array)?.map_or(&[][..], Vec::as_slice);
        list.iter().map(|item| item.as_str().map(str::to_owned).ok_or(WrongType)).collect()
    }

    fn typed<T>(self, name: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Result<Option<T>, WrongType> {
        self.value(name).map(|value| read(value).ok_or(WrongType)).transpose()
    }
}

/// A JSON number as a count: fractions are truncated, negative numbers are zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float saturates, as intended"
)]
pub(crate) fn saturated(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn count_saturates_and_other_types_are_refused() {
        let cases = [
            (json!(7), Some(7)),
            (json!(7.9), Some(7)),
            (json!(-3), Some(0)),
            (json!(1e300), Some(u64::MAX)),
            (json!("7"), None),
            (json!(true), None),
        ];
        for (value, expected) in cases {
            assert_eq!(saturated(&value), expected, "{value}");
        }
    }

    #[test]
    fn null_counts_as_absent_and_a_wrong_type_is_an_error() {
        let object = json!({"null": null, "text": "a", "list": ["a", 1]});
        let fields = Fields::new(object.as_object().unwrap());
        assert!(matches!(fields.string("null"), Ok(None)));
        assert!(matches!(fields.string("missing"), Ok(None)));
        assert!(matches!(fields.boolean("text"), Err(WrongType)));
        assert!(matches!(fields.strings("list"), Err(WrongType)));
    }
}
