//! Patterns of headers that may carry a credential.

use allowlist::Glob;
use serde::{Deserialize, Serialize, Serializer};

use crate::SecretError;
use crate::limits::HEADER_LIMIT;

/// Headers that control a message's framing or routing. If one of them were declared to carry a
/// credential, removing a foreign credential from it would break the message.
const FRAMING: [&str; 8] =
    ["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];

/// The name of a header, or a pattern over names (`*`, `?`, `[…]`), ignoring case.
///
/// ```
/// use sandbox_credentials::HeaderPattern;
///
/// let exact = HeaderPattern::new("Authorization")?;
/// assert!(exact.is_exact() && exact.matches("authorization"));
/// let wildcard = HeaderPattern::new("X-*-Key")?;
/// assert!(!wildcard.is_exact() && wildcard.matches("x-api-key"));
/// # Ok::<(), sandbox_credentials::SecretError>(())
/// ```
///
/// `_` and `-` are equivalent, since gateways pass both to programs as `_`: otherwise, writing one
/// for the other would hide a credential. In a pattern with a class (`[…]`) each matches only
/// itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HeaderPattern {
    glob: Glob,
    /// The same with `-` instead of `_`.
    hyphened: Option<Glob>,
}

impl HeaderPattern {
    /// Parses a pattern. It is a wildcard pattern if it contains `*`, `?` or `[`.
    ///
    /// # Errors
    ///
    /// If no header can have such a name, or if it names a header that frames the message, such as
    /// `Host`.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        let text = &text.to_ascii_lowercase();
        let glob = Glob::new(text);
        let hyphened = (!text.contains('[')).then(|| Glob::new(&text.replace('_', "-")));
        match problem(&glob) {
            None => Ok(Self { glob, hyphened }),
            Some(problem) => Err(SecretError::HeaderPattern {
                pattern: text.chars().take(HEADER_LIMIT).collect(),
                fault: problem,
            }),
        }
    }

    /// Whether it matches the header `name`, which must be in lower case.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.hyphened {
            None => self.glob.matches(name),
            Some(hyphened) if name.contains('_') => hyphened.matches(&name.replace('_', "-")),
            Some(hyphened) => hyphened.matches(name),
        }
    }

    /// Whether it names one header: only such a pattern removes foreign credentials.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.glob.is_exact()
    }

    /// The pattern, in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.glob.as_str()
    }
}

impl TryFrom<String> for HeaderPattern {
    type Error = SecretError;

    fn try_from(text: String) -> Result<Self, SecretError> {
        Self::new(&text)
    }
}

impl Serialize for HeaderPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

fn problem(glob: &Glob) -> Option<&'static str> {
    let text = glob.as_str();
    if text.is_empty() {
        return Some("it is empty");
    }
    if text.len() > HEADER_LIMIT {
        return Some("it is too long");
    }
    if glob.literals().any(|literal| literal == '[') {
        return Some("a `[` is not closed");
    }
    // Inside a class, brackets may be literal; elsewhere the literals are checked individually.
    let in_class = |character| matches!(character, '[' | ']');
    if glob.literals().any(|literal| !is_token(literal))
        || text.chars().any(|character| !is_token(character) && !in_class(character) && character != '?')
    {
        return Some("only letters, digits and !#$%&'*+-.^_`|~ may stand in one");
    }
    if glob.is_exact() && FRAMING.contains(&text.replace('_', "-").as_str()) {
        return Some("this header frames the message and carries no credential");
    }
    None
}

/// Whether a header name may contain the character.
fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_patterns_ignore_case() {
        for (text, exact, name, matches) in [
            ("Authorization", true, "authorization", true),
            ("Authorization", true, "authorization2", false),
            ("X-API-Key", true, "x-api-key", true),
            ("X-*-Key", false, "x-api-key", true),
            ("X-*-Key", false, "x-key", false),
            ("X-API-Key", true, "x_api-key", true),
            ("X_API_Key", true, "x-api-key", true),
            ("X_*_Key", false, "x-api-key", true),
            ("X-*-Key", false, "x_api_key", true),
            ("X-[_]", false, "x--", false),
            ("*", false, "anything", true),
            ("x-key-?", false, "x-key-1", true),
            ("X-[A-C]", false, "x-b", true),
            ("X-[!A-C]", false, "x-b", false),
            ("x_`|~!#$%&'+.^", true, "x_`|~!#$%&'+.^", true),
        ] {
            let pattern = HeaderPattern::new(text).unwrap();
            assert_eq!((pattern.is_exact(), pattern.matches(name)), (exact, matches), "{text} {name}");
            assert_eq!(pattern.as_str(), text.to_ascii_lowercase());
            assert_eq!(HeaderPattern::new(pattern.as_str()), Ok(pattern), "reading again changes nothing");
        }
    }

    #[test]
    fn invalid_header_name_is_refused() {
        for (text, expected) in [
            ("", "empty"),
            ("x key", "letters"),
            ("x:key", "letters"),
            (":authority", "letters"),
            ("x-kéy", "letters"),
            ("x\nkey", "letters"),
            ("x\0", "letters"),
            ("x-[a", "not closed"),
            ("x-a]", "letters"),
            ("x-[:]", "letters"),
            ("x-[é]*", "letters"),
            ("Host", "frames"),
            ("Transfer-Encoding", "frames"),
            ("Content_Length", "frames"),
            (&"x".repeat(257), "too long"),
        ] {
            let error = HeaderPattern::new(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
