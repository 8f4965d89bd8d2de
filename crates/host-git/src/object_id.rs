//! Names of objects.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A repository's object format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Format {
    Sha1,
    Sha256,
}

impl Format {
    /// Bytes of a name.
    pub(crate) fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Parses an id in the only spelling that git writes; `None` for the null id.
    pub(crate) fn id(self, text: &[u8]) -> Option<ObjectId> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_id = text.len() == 2 * self.length()
            && text.iter().all(is_digit)
            && text.iter().any(|digit| *digit != b'0');
        is_id.then(|| ObjectId(String::from_utf8_lossy(text).into()))
    }

    /// The id with these bytes.
    pub(crate) fn binary(self, bytes: &[u8]) -> Option<ObjectId> {
        self.id(sandbox_files::hex(bytes).as_bytes())
    }

    /// Git's spelling of "no object".
    pub(crate) fn nothing(self) -> String {
        "0".repeat(2 * self.length())
    }
}

/// The name of an object: hexadecimal, with the length of the repository's format.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ObjectId(Box<str>);

impl ObjectId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One line per id in `ids`, prefixed with `mark`.
pub(crate) fn lines<'a>(mark: &str, ids: impl Iterator<Item = &'a ObjectId>) -> String {
    let mut text = String::new();
    for id in ids {
        text.extend([mark, id.as_str(), "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gits_own_spelling_is_an_id() {
        let good = "0123456789abcdef0123456789abcdef01234567";
        let check = |text: &str, expected: bool| {
            assert_eq!(Format::Sha1.id(text.as_bytes()).is_some(), expected, "{text}");
        };
        check(good, true);
        check(&good.to_uppercase(), false);
        check(&good[1..], false);
        check(&format!("{good}0"), false);
        check(&Format::Sha1.nothing(), false);
        check(&"g".repeat(40), false);
        assert!(Format::Sha256.id(good.as_bytes()).is_none());
        assert_eq!(Format::Sha1.binary(&[0xab; 20]).unwrap().as_str(), "ab".repeat(20));
    }
}
