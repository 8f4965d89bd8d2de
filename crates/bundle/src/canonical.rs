//! JSON that has one form: no white space, fields in one order, a newline at the end.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The canonical form of `value`.
pub(crate) fn to_bytes(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The value whose canonical form `bytes` is, otherwise the problem. It quotes nothing.
pub(crate) fn from_bytes<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<T, String> {
    let value = serde_json::from_slice(bytes).map_err(|error| {
        format!("is not the expected JSON, at line {}, column {}", error.line(), error.column())
    })?;
    match to_bytes(&value) {
        Ok(same) if same == bytes => Ok(value),
        _ => Err("is JSON of another form than the sandbox writes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Pair {
        a: u64,
        b: String,
    }

    #[test]
    fn other_form_of_the_same_value_is_refused() {
        let bytes = "{\"a\":1,\"b\":\"é\\n\"}\n".as_bytes();
        assert_eq!(from_bytes(bytes), Ok(Pair { a: 1, b: "é\n".to_owned() }), "the control");
        for other in [
            "{\"a\":1,\"b\":\"é\\n\"}",
            "{\"a\":1,\"b\":\"\\u00e9\\n\"}\n",
            "{\"b\":\"é\\n\",\"a\":1}\n",
            "{\"a\": 1,\"b\":\"é\\n\"}\n",
            "{\"a\":1,\"b\":\"é\\n\"}\n\n",
            "{\"a\":1,\"b\":\"é\\n\",\"c\":2}\n",
        ] {
            let error = from_bytes::<Pair>(other.as_bytes()).unwrap_err();
            assert!(error.contains("another form"), "{other}: {error}");
        }
        let error = from_bytes::<Pair>(b"{\"\x1b[31m\":1}\n").unwrap_err();
        assert_eq!(error, "is not the expected JSON, at line 1, column 3");
    }
}
