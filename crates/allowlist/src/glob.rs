//! The patterns of a policy, for texts that are neither hosts nor paths.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;
use serde::Serializer;

use crate::pattern::Pattern;
use crate::pattern::Token;

/// A shell-style pattern with the semantics of Python's `fnmatch`: `*` matches any sequence of
/// characters, `?` one character, `[…]` one of a class, `[!…]` one outside of it. It is
/// case-sensitive. Matching is linear in the text.
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
    /// Parses a pattern. Every text is valid.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { pattern: Pattern::compile(text) }
    }

    /// Whether the pattern matches the whole of `text`.
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

    /// The literal characters, in order. A `[` among them is an unclosed one.
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
    fn glob_matches_whole_text_and_is_case_sensitive() {
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
    fn glob_without_wildcard_is_exact() {
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
