//! The host of a rule.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;
use serde::Serializer;

use crate::host::HostName;
use crate::host::InvalidHost;
use crate::host::LABEL_LIMIT;
use crate::host::NAME_LIMIT;
use crate::host::is_host_byte;
use crate::host::is_number;
use crate::host::to_ascii;
use crate::invalid_rule::InvalidRule;
use crate::pattern::Language;
use crate::pattern::Pattern;
use crate::pattern::Token;

/// Maximum length of a pattern in bytes, including classes; far above any legitimate one, it bounds
/// the cost of compiling it.
const TEXT_LIMIT: usize = 4096;

/// A case-insensitive pattern over host names: `*` matches any sequence of characters, including
/// dots, `?` one character, `[…]` one of a class.
///
/// A pattern with a wildcard never matches an IPv4 address.
///
/// ```
/// use allowlist::{HostName, HostPattern};
///
/// let pattern = HostPattern::new("*.Example.com")?;
/// assert!(pattern.matches(&HostName::from_wire(b"a.b.example.com")?));
/// assert!(!pattern.matches(&HostName::from_wire(b"example.com")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HostPattern {
    pattern: Pattern,
}

impl HostPattern {
    /// Reads a pattern. Labels without a wildcard may be written in any script; one trailing dot is
    /// dropped.
    ///
    /// # Errors
    ///
    /// A pattern that no host name can ever match.
    pub fn new(text: &str) -> Result<Self, InvalidRule> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(InvalidRule::EmptyHost);
        }
        if text.len() > TEXT_LIMIT {
            return Err(InvalidRule::Host(InvalidHost::TooLong));
        }
        let pattern = Pattern::compile(&canonical(text)?);
        check_characters(&pattern)?;
        check_labels(&pattern)?;
        if pattern.is_exact() {
            // Parsed as on the wire, so that an exact rule names a host that can be requested.
            HostName::from_wire(pattern.as_str().as_bytes()).map_err(InvalidRule::Host)?;
        } else if !pattern.reaches(&HostLanguage) {
            return Err(InvalidRule::UnreachableHost);
        }
        Ok(Self { pattern })
    }

    /// Whether the pattern matches `host`.
    #[must_use]
    pub fn matches(&self, host: &HostName) -> bool {
        (self.pattern.is_exact() || host.is_ipv4().is_none()) && self.pattern.matches(host.as_str())
    }

    /// The pattern in canonical form: lower case, A-labels, no trailing dot.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.pattern.as_str()
    }

    /// Whether the pattern has no wildcard.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.pattern.is_exact()
    }

    pub(crate) fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}

impl TryFrom<String> for HostPattern {
    type Error = InvalidRule;

    fn try_from(text: String) -> Result<Self, InvalidRule> {
        Self::new(&text)
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Lower case, with A-labels for labels of other scripts.
fn canonical(text: &str) -> Result<String, InvalidRule> {
    if text.is_ascii() {
        return Ok(text.to_ascii_lowercase());
    }
    let mut labels = Vec::new();
    for label in text.split('.') {
        if label.is_ascii() {
            labels.push(label.to_ascii_lowercase());
            continue;
        }
        if label.contains(['*', '?', '[']) {
            return Err(InvalidRule::WildcardInInternationalLabel);
        }
        let ascii = to_ascii(label).map_err(InvalidRule::Host)?;
        // The conversion can yield any ASCII character, a wildcard too: full-width forms map to it.
        if let Some(other) = ascii.bytes().find(|byte| !is_host_byte(*byte)) {
            return Err(InvalidRule::Host(InvalidHost::Character(other)));
        }
        labels.push(ascii.into_owned());
    }
    Ok(labels.join("."))
}

fn check_characters(pattern: &Pattern) -> Result<(), InvalidRule> {
    if pattern.as_str().contains("://") {
        return Err(InvalidRule::HostWithScheme);
    }
    let foreign = pattern.tokens().iter().find_map(|token| match token {
        Token::Literal(literal) if !literal.is_ascii() || !is_host_byte(*literal as u8) => Some(*literal),
        _ => None,
    });
    match foreign {
        None => Ok(()),
        Some('/') => Err(InvalidRule::HostWithPath),
        Some(':') => Err(InvalidRule::HostWithPort),
        Some('[') => Err(InvalidRule::UnclosedClass),
        Some(other) => Err(InvalidRule::HostCharacter(other)),
    }
}

/// Checks for empty labels, over-long literals and numbers, each with its own message.
fn check_labels(pattern: &Pattern) -> Result<(), InvalidRule> {
    let is_dot = |token: &Token| matches!(token, Token::Literal('.'));
    let mut run = 0;
    let mut after_dot = true;
    for (star, token) in pattern.steps() {
        if is_dot(token) && after_dot && !star {
            return Err(InvalidRule::Host(InvalidHost::EmptyLabel));
        }
        after_dot = is_dot(token);
        run = if after_dot { 0 } else { run + 1 };
        // Only literals: a class or `?` may match a dot.
        let literal = matches!(token, Token::Literal(_));
        if !literal {
            run = 0;
        }
        if run > LABEL_LIMIT {
            return Err(InvalidRule::Host(InvalidHost::TooLong));
        }
    }
    if pattern.as_str().ends_with('.') {
        return Err(InvalidRule::Host(InvalidHost::EmptyLabel));
    }
    if pattern.tokens().len() > NAME_LIMIT {
        return Err(InvalidRule::Host(InvalidHost::TooLong));
    }
    let tail = pattern.as_str().rsplit('.').next().unwrap_or_default();
    if !pattern.is_exact() && tail.len() < pattern.as_str().len() && is_number(tail) {
        return Err(InvalidRule::Host(InvalidHost::Number));
    }
    Ok(())
}

/// All host names except IPv4 addresses.
pub(crate) struct HostLanguage;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum HostState {
    LabelStart,
    Zero,
    Digits,
    Hexadecimal,
    Name,
}

impl Language for HostLanguage {
    type State = HostState;

    fn start(&self) -> HostState {
        HostState::LabelStart
    }

    fn step(&self, state: HostState, next: char) -> Option<HostState> {
        use HostState::{Digits, Hexadecimal, LabelStart, Name, Zero};
        match (state, next) {
            (LabelStart, '.') => None,
            (_, '.') => Some(LabelStart),
            (LabelStart, '0') => Some(Zero),
            (Zero, 'x') | (Hexadecimal, '0'..='9' | 'a'..='f') => Some(Hexadecimal),
            (LabelStart | Zero | Digits, '0'..='9') => Some(Digits),
            (_, '0'..='9' | 'a'..='z' | '-' | '_') => Some(Name),
            _ => None,
        }
    }

    fn accepts(&self, state: HostState) -> bool {
        state == HostState::Name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_that_can_match_is_accepted() {
        for (text, canonical) in [
            ("API.github.com", "api.github.com"),
            ("api.github.com.", "api.github.com"),
            ("*", "*"),
            ("*.", "*"),
            ("*.example.com", "*.example.com"),
            ("api-?.example.com", "api-?.example.com"),
            ("[a-c]*.example.com", "[a-c]*.example.com"),
            ("[!x].example.com", "[!x].example.com"),
            ("Bücher.example", "xn--bcher-kva.example"),
            ("*.bücher.example", "*.xn--bcher-kva.example"),
            ("10.0.0.1", "10.0.0.1"),
            ("10.0.0.*", "10.0.0.*"),
            ("under_score.example", "under_score.example"),
            ("*.*", "*.*"),
        ] {
            assert_eq!(HostPattern::new(text).unwrap().as_str(), canonical, "{text}");
        }
    }

    #[test]
    fn pattern_that_never_matches_is_refused() {
        use InvalidRule as R;
        for (text, expected) in [
            ("", R::EmptyHost),
            (".", R::EmptyHost),
            ("https://example.com", R::HostWithScheme),
            ("example.com/path", R::HostWithPath),
            ("example.com:443", R::HostWithPort),
            ("user@example.com", R::HostCharacter('@')),
            ("exa mple.com", R::HostCharacter(' ')),
            ("exam\tple.com", R::HostCharacter('\t')),
            ("[abc.example.com", R::UnclosedClass),
            ("abc].example.com", R::HostCharacter(']')),
            ("a..b", R::Host(InvalidHost::EmptyLabel)),
            (".example.com", R::Host(InvalidHost::EmptyLabel)),
            ("example.com..", R::Host(InvalidHost::EmptyLabel)),
            ("*..com", R::Host(InvalidHost::EmptyLabel)),
            ("[.].com", R::UnreachableHost),
            ("[.]x.com", R::UnreachableHost),
            ("[/].com", R::UnreachableHost),
            ("[z-a].com", R::UnreachableHost),
            ("*.1", R::Host(InvalidHost::Number)),
            ("*.0x7f", R::Host(InvalidHost::Number)),
            ("*.[0-9]", R::UnreachableHost),
            ("999.1.1.1", R::Host(InvalidHost::Number)),
            ("2130706433", R::Host(InvalidHost::Number)),
            ("bü*.example", R::WildcardInInternationalLabel),
            ("bü?.example", R::WildcardInInternationalLabel),
            ("[ü].example", R::WildcardInInternationalLabel),
            ("＊.example", R::Host(InvalidHost::Character(b'*'))),
        ] {
            assert_eq!(HostPattern::new(text), Err(expected), "{text}");
        }
        let long = "a".repeat(64);
        for text in [
            format!("{long}.com"),
            format!("*.{long}"),
            "a.".repeat(127) + "com",
            "?".repeat(254),
            "*".repeat(4097),
        ] {
            assert_eq!(HostPattern::new(&text), Err(R::Host(InvalidHost::TooLong)), "{text}");
        }
    }

    #[test]
    fn wildcard_never_matches_an_address() {
        let address = HostName::from_wire(b"10.0.0.1").unwrap();
        for (text, expected) in [
            ("*", false),
            ("10.0.0.*", false),
            ("10.0.0.?", false),
            ("10.0.0.[1]x*", false),
            ("10.0.0.1", true),
        ] {
            assert_eq!(HostPattern::new(text).unwrap().matches(&address), expected, "{text}");
        }
    }

    #[test]
    fn host_pattern_ignores_case_and_matches_dots() {
        for (pattern, host, expected) in [
            ("*.EXAMPLE.com", "a.b.example.COM", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "evil-example.com", false),
            ("api.*.com", "api.a.b.com", true),
            ("[A-C].example.com", "b.example.com", true),
        ] {
            let host = HostName::from_wire(host.as_bytes()).unwrap();
            assert_eq!(HostPattern::new(pattern).unwrap().matches(&host), expected, "{pattern} {host}");
        }
    }
}
