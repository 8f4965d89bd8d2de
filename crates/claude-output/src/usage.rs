//! Token counts.

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::de::Error;
use serde_json::Map;
use serde_json::Value;

use crate::fields::saturated;

/// The tokens that a reply or a run used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Input tokens that were not cached.
    #[serde(deserialize_with = "count")]
    pub input_tokens: u64,
    /// Output tokens.
    #[serde(deserialize_with = "count")]
    pub output_tokens: u64,
    /// Input tokens that were written to the cache.
    #[serde(deserialize_with = "count")]
    pub cache_creation_input_tokens: u64,
    /// Input tokens that were read from the cache.
    #[serde(deserialize_with = "count")]
    pub cache_read_input_tokens: u64,
    /// Every other field, unchanged.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A count, with this crate's general rule that `null` is absent, which means zero.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match Option::<Value>::deserialize(deserializer)? {
        None => Ok(0),
        Some(value) => {
            saturated(&value).ok_or_else(|| D::Error::custom("a number of tokens must be a number"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_read_and_other_fields_are_kept() {
        let json = json!({"input_tokens": 3, "output_tokens": null, "service_tier": "standard"});
        let usage: Usage = serde_json::from_value(json).unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (3, 0));
        assert_eq!(usage.extra, *json!({"service_tier": "standard"}).as_object().unwrap());
    }

    #[test]
    fn usage_round_trips() {
        let json = json!({
            "input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 4,
            "speed": "standard",
        });
        let usage: Usage = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&usage).unwrap(), json);
    }

    #[test]
    fn text_in_place_of_a_count_is_refused() {
        assert!(serde_json::from_value::<Usage>(json!({"input_tokens": "3"})).is_err());
    }
}
