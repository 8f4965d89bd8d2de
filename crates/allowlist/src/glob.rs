//! The patterns of a policy, for texts that are neither hosts nor paths.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;
use serde::Serializer;

use crate::pattern::Pattern;
use crate::pattern::Token;

/// A shell-style pattern with the semantics of Python's `fnmatch`: `*` any run of characters, `?`
/// one character, `[…]` one of a class, `[!…]` one that is not. Case matters. Matching is linear in
/// the text.
///
/// ```
/// let pattern = allowlist::Glob::new("x-*-key");
/// assert!(pattern.matches("x-api-key") && !pattern.matches("x-api-keys"));
/// assert!(!pattern.is_exact() && allowlist::Glob::new("authorization").is_exact());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Glob {
    pattern: Pattern,
}

impl Glob {
    /// Reads a pattern. Every text is one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { pattern: Pattern::compile(text) }
    }

    /// Whether the pattern covers the whole of `text`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.pattern.matches(text)
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.pattern.as_str()
    }

    /// Whether the pattern has no wildcard.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.pattern.is_exact()
    }

    /// The characters that stand for themselves, in order. A `[` among them is one that nothing
    /// closes.
    pub fn literals(&self) -> impl Iterator<Item = char> + '_ {
        self.pattern.tokens().iter().filter_map(|token| match token {
            Token::Literal(literal) => Some(*literal),
            Token::Any | Token::Class(_) => None,
        })
    }
}

impl From<String> for Glob {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl Serialize for Glob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_whole_texts_and_heed_case() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "any\ntext é", true),
            ("x-*", "x-access-token", true),
            ("x-*", "ax-b", false),
            ("x-*", "X-b", false),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]?", "bz", true),
            ("[!a-c]", "b", false),
            ("[!a-c]", "d", true),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("a.b", "axb", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_without_wildcard_is_exact_and_shown_as_written() {
        for (text, exact) in [
            ("", true),
            ("oauth2", true),
            ("[open", true),
            ("a]", true),
            ("a*", false),
            ("a?", false),
            ("[a]", false),
        ] {
            let glob = Glob::new(text);
            assert_eq!(glob.is_exact(), exact, "{text}");
            assert_eq!((glob.as_str(), glob.to_string()), (text, text.to_owned()));
        }
    }

    #[test]
    fn glob_without_wildcards_is_literal() {
        for (text, expected) in [("", ""), ("a*b?c", "abc"), ("a[b-d]e", "ae"), ("*[a", "[a"), ("a]", "a]")] {
            assert_eq!(Glob::new(text).literals().collect::<String>(), expected, "{text}");
        }
    }
}
