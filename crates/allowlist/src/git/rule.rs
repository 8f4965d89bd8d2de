//! Rights of a policy to a repository.

use serde::Deserialize;
use serde::Serialize;

use super::ref_name::is_forbidden;
use crate::glob::Glob;
use crate::invalid_rule::InvalidRule;

/// Allowed operations on a repository over git's smart HTTP: fetching is always allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitRule {
    /// The refs that may be pushed; none by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub push: Vec<RefPattern>,
    /// Whether updates of these refs may lose commits; false by default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// Whether these refs may also be deleted; false by default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delete: bool,
}

/// A pattern of full names of refs, such as `refs/heads/agent/*`; `*` also matches slashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RefPattern(Glob);

impl GitRule {
    /// Whether a ref of this name may be pushed.
    pub(super) fn covers(&self, name: &[u8]) -> bool {
        // Only wildcards match invalid UTF-8.
        let name = String::from_utf8_lossy(name);
        self.push.iter().any(|pattern| pattern.0.matches(&name))
    }
}

impl RefPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// A pattern that no ref can match.
    pub fn new(text: &str) -> Result<Self, InvalidRule> {
        let glob = Glob::new(text);
        let forbidden = |c: char| c == char::REPLACEMENT_CHARACTER || u8::try_from(c).is_ok_and(is_forbidden);
        let begins = text.starts_with("refs/") || text.starts_with(['*', '?', '[']);
        if !begins || text.ends_with('/') || glob.literals().any(forbidden) {
            return Err(InvalidRule::Ref(text.to_owned()));
        }
        Ok(Self(glob))
    }

    /// Covers every ref.
    pub(super) fn any() -> Self {
        Self(Glob::new("*"))
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl TryFrom<String> for RefPattern {
    type Error = InvalidRule;

    fn try_from(text: String) -> Result<Self, InvalidRule> {
        Self::new(&text)
    }
}

impl From<RefPattern> for String {
    fn from(pattern: RefPattern) -> Self {
        pattern.as_str().to_owned()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ref_pattern_that_never_matches_is_refused() {
        for text in
            ["refs/heads/*", "refs/heads/main", "*", "refs/*/x", "refs/heads/[ab]", "refs/heads/ü", "?efs/x"]
        {
            assert_eq!(RefPattern::new(text).unwrap().as_str(), text);
        }
        for text in [
            "",
            "main",
            "heads/*",
            "/refs/*",
            "refs/heads/",
            "refs/heads/a b",
            "refs/a~1",
            "refs/a:b",
            "refs/[a",
            "refs/\u{fffd}",
        ] {
            assert_eq!(RefPattern::new(text), Err(InvalidRule::Ref(text.to_owned())));
        }
    }

    #[test]
    fn ref_name_is_matched_as_bytes() {
        let rule =
            |pattern: &str| GitRule { push: vec![RefPattern::new(pattern).unwrap()], ..GitRule::default() };
        for (pattern, name, expected) in [
            ("refs/heads/agent/*", b"refs/heads/agent/x".as_slice(), true),
            ("refs/heads/agent/*", b"refs/heads/agent/x/y", true),
            ("refs/heads/agent/*", b"refs/heads/agent", false),
            ("refs/heads/agent/*", b"refs/heads/agentx", false),
            ("refs/heads/agent/*", b"refs/heads/Agent/x", false),
            ("refs/heads/agent/*", b"refs/heads/agent/\xff", true),
            ("refs/heads/é", "refs/heads/é".as_bytes(), true),
            ("refs/heads/é", "refs/heads/e\u{301}".as_bytes(), false),
            ("refs/heads/[!m]*", b"refs/heads/main", false),
        ] {
            assert_eq!(rule(pattern).covers(name), expected, "{pattern} {name:?}");
        }
        assert!(!GitRule::default().covers(b"refs/heads/main"));
    }
}
