//! The path of a `url_prefixes` rule.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;
use serde::Serializer;

use crate::invalid_rule::InvalidRule;
use crate::pattern::Language;
use crate::pattern::Pattern;
use crate::target::Target;
use crate::target::decoded;
use crate::target::refusal_once_decoded;

/// Maximum length of a pattern in characters, far above any legitimate one; it bounds the cost of
/// compiling it.
const LENGTH_LIMIT: usize = 8192;

/// A case-sensitive pattern over decoded paths followed by the raw query; an empty one matches
/// every path.
///
/// ```
/// use allowlist::{PathPattern, Target};
///
/// let pattern = PathPattern::new("/search")?;
/// assert!(pattern.matches(&Target::from_wire(b"/search")?));
/// assert!(!pattern.matches(&Target::from_wire(b"/search?q=1")?));
/// assert!(PathPattern::new("/search*")?.matches(&Target::from_wire(b"/search?q=1")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PathPattern {
    pattern: Pattern,
}

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// A pattern that has more than 8,192 characters, does not begin with `/` or `*`, or matches
    /// only paths that are always refused.
    pub fn new(text: &str) -> Result<Self, InvalidRule> {
        if text.chars().nth(LENGTH_LIMIT).is_some() {
            return Err(InvalidRule::PathTooLong);
        }
        let pattern = Pattern::compile(text);
        if text.is_empty() {
            return Ok(Self { pattern });
        }
        if !text.starts_with(['/', '*']) {
            return Err(InvalidRule::PathStart);
        }
        let prefix = pattern.literal_prefix();
        if let Some(refusal) = refusal_once_decoded(prefix.as_bytes(), pattern.is_exact()) {
            return Err(InvalidRule::Path(refusal));
        }
        if pattern.reaches(&PathLanguage) { Ok(Self { pattern }) } else { Err(InvalidRule::UnreachablePath) }
    }

    /// The empty pattern.
    pub(crate) fn any() -> Self {
        Self { pattern: Pattern::compile("") }
    }

    /// Whether the pattern matches `target`, including its query.
    #[must_use]
    pub fn matches(&self, target: &Target) -> bool {
        self.matches_text(target.for_matching())
    }

    /// Whether the pattern would match `target` without its query.
    #[must_use]
    pub fn matches_without_query(&self, target: &Target) -> bool {
        self.matches_text(target.path())
    }

    /// Whether the pattern matches `target` with path and query separately: no wildcard before a
    /// `[?]` or the end reaches into the query.
    pub(crate) fn matches_separately(&self, target: &Target) -> bool {
        match self.as_str().split_once("[?]") {
            Some((path, query)) => {
                let raw = target.for_matching().get(target.path().len() + 1..);
                Pattern::compile(path).matches(target.path())
                    && raw.is_some_and(|raw| Pattern::compile(query).matches(raw))
            }
            None => {
                self.matches_without_query(target)
                    && (target.query().is_none() || self.as_str().is_empty() || self.as_str().ends_with('*'))
            }
        }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.pattern.as_str()
    }

    pub(crate) fn covers_every_path(&self) -> bool {
        matches!(self.as_str(), "" | "*" | "/*")
    }

    pub(crate) fn matches_text(&self, text: &str) -> bool {
        self.as_str().is_empty() || self.pattern.matches(text)
    }

    /// The pattern as one of `deny`, if that differs: decoded to the end, without `//` and a `/` at its
    /// end.
    pub(crate) fn plain(&self) -> Option<Self> {
        // A wildcard that is encoded stands for itself.
        let mut plain = self.as_str().to_owned();
        for (encoded, escaped) in
            [("%2a", "[*]"), ("%2A", "[*]"), ("%3f", "[?]"), ("%3F", "[?]"), ("%5b", "[[]"), ("%5B", "[[]")]
        {
            plain = plain.replace(encoded, escaped);
        }
        plain = decoded(plain.as_bytes());
        while plain.contains("//") {
            plain = plain.replace("//", "/");
        }
        if plain.len() > 1 && plain.ends_with('/') {
            plain.pop();
        }
        (plain != self.as_str()).then(|| Self { pattern: Pattern::compile(&plain) })
    }

    /// Whether the pattern matches `text`, where upper and lower case are the same.
    pub(crate) fn matches_in_any_case(&self, text: &str) -> bool {
        self.as_str().is_empty() || self.pattern.matches_in_any_case(text)
    }

    pub(crate) fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

impl TryFrom<String> for PathPattern {
    type Error = InvalidRule;

    fn try_from(text: String) -> Result<Self, InvalidRule> {
        Self::new(&text)
    }
}

impl Serialize for PathPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The texts that rules are matched against: an accepted path, decoded once, and an optional,
/// arbitrary query.
///
/// It ignores further decodings; the text before the first wildcard is checked for those.
pub(crate) struct PathLanguage;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PathState {
    Start,
    SegmentStart,
    OneDot,
    TwoDots,
    Segment,
    Query,
}

impl Language for PathLanguage {
    type State = PathState;

    fn start(&self) -> PathState {
        PathState::Start
    }

    fn step(&self, state: PathState, next: char) -> Option<PathState> {
        use PathState::{OneDot, Query, Segment, SegmentStart, Start, TwoDots};
        match (state, next) {
            (Query, _) => Some(Query),
            (Start, '/') => Some(SegmentStart),
            (Start, _) | (OneDot | TwoDots, '/' | ';' | '#' | '?') | (_, '\\') => None,
            (_, control) if control.is_control() => None,
            (_, '/') => Some(SegmentStart),
            (_, '?') => Some(Query),
            (SegmentStart, '.') => Some(OneDot),
            (OneDot, '.') => Some(TwoDots),
            _ => Some(Segment),
        }
    }

    fn accepts(&self, state: PathState) -> bool {
        matches!(state, PathState::SegmentStart | PathState::Segment | PathState::Query)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::PathRefusal;

    #[test]
    fn pattern_that_can_match_is_accepted() {
        for text in [
            "",
            "/",
            "*",
            "/api/*",
            "/a b",
            "/ü",
            "/%20",
            "/%3F",
            "/a?b",
            "/..*",
            "/...",
            "/.well-known/*",
            "/[ab]/c",
            "*/../*",
            "/*\\*",
            "/a//b",
            "/[!a]",
            "/[! -~]*",
            "/a;b/..c",
            "/a[?]x=/../y",
            "/100%",
        ] {
            assert!(PathPattern::new(text).is_ok(), "{text}: {:?}", PathPattern::new(text));
        }
    }

    #[test]
    fn pattern_that_never_matches_is_refused() {
        use InvalidRule::{Path, PathStart, UnreachablePath};
        for (text, expected) in [
            ("api/*", PathStart),
            ("?", PathStart),
            ("[/]x", PathStart),
            ("https://example.com/", PathStart),
            ("/a/../b", Path(PathRefusal::DotSegment)),
            ("/..", Path(PathRefusal::DotSegment)),
            ("/./x", Path(PathRefusal::DotSegment)),
            ("/../*", Path(PathRefusal::DotSegment)),
            ("/..;*", Path(PathRefusal::DotSegment)),
            ("/%2e%2e/*", Path(PathRefusal::DotSegment)),
            ("/%252e./x", Path(PathRefusal::DotSegment)),
            ("/a\\b", Path(PathRefusal::Backslash)),
            ("/a%5cb*", Path(PathRefusal::Backslash)),
            ("/a\u{7}*", Path(PathRefusal::ControlCharacter)),
            ("/a\u{85}", Path(PathRefusal::ControlCharacter)),
            ("/a%00", Path(PathRefusal::ControlCharacter)),
            ("/[ab]/../c", UnreachablePath),
            ("/[.][.]/c", UnreachablePath),
            ("/[\\]", UnreachablePath),
            ("/[z-a]", UnreachablePath),
        ] {
            assert_eq!(PathPattern::new(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn pattern_longer_than_the_limit_is_refused() {
        let longest = format!("/*{}", "a".repeat(LENGTH_LIMIT - 2));
        assert!(PathPattern::new(&longest).is_ok());
        assert_eq!(PathPattern::new(&(longest + "a")), Err(InvalidRule::PathTooLong));
    }

    #[test]
    fn matching_table() {
        for (pattern, target, expected) in [
            ("", "/anything?at=all", true),
            ("*", "/anything", true),
            ("/api", "/api", true),
            ("/api", "/api/", false),
            ("/api", "/API", false),
            ("/api", "/api?", false),
            ("/api*", "/api?", true),
            ("/a b", "/a%20b", true),
            ("/a%3Fb", "/a%3fb", true),
            ("/a?b", "/a%3Fb", false),
            ("/a[?]b", "/a?b", true),
            ("/@scope/name", "/@scope%2fname", true),
            ("/ü", "/%C3%BC", true),
            ("/?", "/%C3%BC", true),
            ("/x?q=%2e", "/x?q=%2e", true),
            ("/x?q=.", "/x?q=%2e", false),
            ("/a/b", "/a//b", false),
        ] {
            let target = Target::from_wire(target.as_bytes()).unwrap();
            assert_eq!(PathPattern::new(pattern).unwrap().matches(&target), expected, "{pattern} {target:?}");
        }
    }
}
