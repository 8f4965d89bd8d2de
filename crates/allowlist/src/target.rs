//! The request target, whose path has exactly one meaning for rules.
//!
//! Invariant: a [`Target`] has no dot segment, backslash or control character in its path, however
//! often it is decoded.

use std::borrow::Cow;

/// An origin-form target that has exactly one meaning.
///
/// ```
/// use allowlist::{PathRefusal, Target};
///
/// let target = Target::from_wire(b"/@scope%2fname?tag=%2e")?;
/// assert_eq!(target.for_matching(), "/@scope/name?tag=%2e");
/// assert_eq!(Target::from_wire(b"/a/%252e%252e/b"), Err(PathRefusal::DotSegment));
/// # Ok::<(), PathRefusal>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    received: Box<[u8]>,
    /// Start of the raw query in `received`, including its `?`.
    query_start: usize,
    matching: Box<str>,
    /// Start of the raw query in `matching`.
    matching_query_start: usize,
}

/// The reason why a target is refused before any rule is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathRefusal {
    /// `*`, an authority, or nothing.
    #[error("the path does not begin with `/`")]
    NotAbsolute,
    /// A raw space, control or non-ASCII byte.
    #[error("the path contains the raw byte 0x{0:02x}, which must be percent-encoded")]
    Unprintable(u8),
    /// A byte that no request line carries: `#` anywhere; `<`, `>` and a backquote in the path; in
    /// the query a space, a control character and invalid UTF-8.
    #[error("the URL contains the raw byte 0x{0:02x}, which must be percent-encoded")]
    Unencoded(u8),
    /// `%`, `%2`, `%zz`, `%u002e`.
    #[error("the path contains a `%` that does not begin a valid escape")]
    MalformedEscape,
    /// The decoded path is not text.
    #[error("the path is not UTF-8 when it is decoded")]
    InvalidUtf8,
    /// A C0 or C1 control character, NUL or DEL, plain or encoded any number of times.
    #[error("the path contains a control character")]
    ControlCharacter,
    /// A backslash, plain or encoded any number of times.
    #[error("the path contains a backslash")]
    Backslash,
    /// `.` or `..`, plain or encoded any number of times, with or without parameters.
    #[error("the path contains a dot segment")]
    DotSegment,
}

impl Target {
    /// Reads the target as it appears in the request line or in `:path`.
    ///
    /// The query may contain anything that a request line can carry, including raw quotes and
    /// UTF-8; all other rules apply to the path only.
    ///
    /// # Errors
    ///
    /// An ambiguous path, or a byte that must be percent-encoded.
    pub fn from_wire(bytes: &[u8]) -> Result<Self, PathRefusal> {
        let query_start = bytes.iter().position(|byte| *byte == b'?').unwrap_or(bytes.len());
        let (path, query) = bytes.split_at(query_start);
        if path.first() != Some(&b'/') {
            return Err(PathRefusal::NotAbsolute);
        }
        if let Some(other) = path.iter().find(|byte| !(0x21..=0x7e).contains(*byte)) {
            return Err(PathRefusal::Unprintable(*other));
        }
        let mut matching =
            String::from_utf8(decode_for_matching(path)?).map_err(|_| PathRefusal::InvalidUtf8)?;
        if let Some(refusal) = refusal_once_decoded(path, true) {
            return Err(refusal);
        }
        if let Some(other) = path.iter().find(|byte| b"#<>`".contains(byte)) {
            return Err(PathRefusal::Unencoded(*other));
        }
        let matching_query_start = matching.len();
        matching.push_str(readable_query(query)?);
        Ok(Self { received: bytes.into(), query_start, matching: matching.into(), matching_query_start })
    }

    /// The received bytes, which are the bytes to forward.
    #[must_use]
    pub fn as_received(&self) -> &[u8] {
        &self.received
    }

    /// The text that rules match: the path decoded once, except for `%3F`, then the raw query.
    #[must_use]
    pub fn for_matching(&self) -> &str {
        &self.matching
    }

    /// The path alone, decoded once, except for `%3F`.
    #[must_use]
    pub fn path(&self) -> &str {
        self.matching.get(..self.matching_query_start).unwrap_or_default()
    }

    /// The texts that rules of `deny` match: the path as servers may read it, with and without the
    /// query. It is decoded once and to the end; as it is, with `//` joined, and also with the
    /// parameters of segments (`;v=1`) and a decoded query cut off, with and without a `/` at its end.
    /// The last one is the plainest.
    pub(crate) fn readings(&self) -> Vec<String> {
        let (path, query) = self.received.split_at_checked(self.query_start).unwrap_or_default();
        let raw = self.matching.get(self.matching_query_start..).unwrap_or_default().to_owned();
        let levels = [(self.path().to_owned(), raw), (decoded(path), decoded(query))];
        let mut readings: Vec<String> = Vec::new();
        for (path, query) in levels {
            let plain = without_parameters(&path);
            let file = plain.strip_suffix('/').unwrap_or(&plain).to_owned();
            let joined = joined(&path);
            let whole = joined.strip_suffix('/').unwrap_or(&joined).to_owned();
            for path in [path, joined, whole, plain, file] {
                for reading in [format!("{path}{query}"), path] {
                    // Most are the same, and each is matched with every rule.
                    readings.retain(|known| *known != reading);
                    readings.push(reading);
                }
            }
        }
        readings
    }

    /// The raw query, without its `?`; `Some` and empty if nothing follows the `?`.
    #[must_use]
    pub fn query(&self) -> Option<&[u8]> {
        self.received.get(self.query_start + 1..)
    }
}

/// The text, decoded to the end.
pub(crate) fn decoded(text: &[u8]) -> String {
    String::from_utf8_lossy(&decode_fully(text)).into_owned()
}

/// The path with single slashes.
fn joined(path: &str) -> String {
    let mut before = ' ';
    path.chars().filter(|c| std::mem::replace(&mut before, *c) != '/' || *c != '/').collect()
}

/// The path up to a decoded `?` or `#`, with single slashes, and segments that end at their `;`.
fn without_parameters(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let path = path.split(['?', '#']).next().unwrap_or_default();
    for segment in path.split_inclusive('/') {
        let name = segment.split([';', '/']).next().unwrap_or_default();
        plain.push_str(name);
        if segment.ends_with('/') && !plain.ends_with('/') {
            plain.push('/');
        }
    }
    plain
}

/// The query as text. Bytes at which HTTP parsers cut the target, or which they refuse, are
/// refused: the rules must see the bytes that are sent.
fn readable_query(query: &[u8]) -> Result<&str, PathRefusal> {
    let unreadable = |byte: &&u8| **byte == b'#' || **byte <= b' ' || **byte == 0x7f;
    if let Some(other) = query.iter().find(unreadable) {
        return Err(PathRefusal::Unencoded(*other));
    }
    str::from_utf8(query).map_err(|error| {
        let other = query.get(error.valid_up_to()).copied().unwrap_or_default();
        PathRefusal::Unencoded(other)
    })
}

/// Decodes once; `%3F` is kept, in upper case, so that it never looks like the beginning of a
/// query.
fn decode_for_matching(path: &[u8]) -> Result<Vec<u8>, PathRefusal> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            decoded.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = tail else {
            return Err(PathRefusal::MalformedEscape);
        };
        rest = tail;
        match escape(*high, *low) {
            None => return Err(PathRefusal::MalformedEscape),
            Some(b'?') => decoded.extend(b"%3F"),
            Some(byte) => decoded.push(byte),
        }
    }
    Ok(decoded)
}

/// The reason why `path` is ambiguous in itself or after any number of decodings.
///
/// Checking the fully decoded text is enough: the forbidden sequences contain no `%` and no
/// hexadecimal digit, so further decoding preserves them; and escapes never overlap, so the final
/// text does not depend on the order of decoding. `complete` is false if more may follow the last
/// segment.
pub(crate) fn refusal_once_decoded(path: &[u8], complete: bool) -> Option<PathRefusal> {
    let decoded = decode_fully(path);
    if decoded.contains(&b'\\') {
        return Some(PathRefusal::Backslash);
    }
    if decoded.iter().any(u8::is_ascii_control) || decoded.array_windows().any(|pair| is_c1(*pair)) {
        return Some(PathRefusal::ControlCharacter);
    }
    let mut segments = decoded.split(|byte| *byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let end = segment.iter().position(|byte| matches!(byte, b';' | b'?' | b'#'));
        let closed = end.is_some() || complete || segments.peek().is_some();
        if closed && matches!(segment.get(..end.unwrap_or(segment.len())), Some(b"." | b"..")) {
            return Some(PathRefusal::DotSegment);
        }
    }
    None
}

/// Whether two bytes are a C1 control character in UTF-8; the first of them never occurs inside
/// another character.
fn is_c1(pair: [u8; 2]) -> bool {
    matches!(pair, [0xc2, 0x80..=0x9f])
}

/// Decodes until nothing changes, in one pass: an escape that a decoded byte completes is decoded
/// immediately.
///
/// Malformed escapes are kept. The time is linear for any depth of nesting, since every step
/// shortens the text.
pub(crate) fn decode_fully(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.contains(&b'%') {
        return Cow::Borrowed(path);
    }
    let mut decoded: Vec<u8> = Vec::with_capacity(path.len());
    for byte in path {
        decoded.push(*byte);
        while let [.., b'%', high, low] = decoded.as_slice() {
            let Some(byte) = escape(*high, *low) else { break };
            decoded.truncate(decoded.len() - 3);
            decoded.push(byte);
        }
    }
    Cow::Owned(decoded)
}

fn escape(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? * 16 + digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn readings() {
        for (raw, matching) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("//a//b/", "//a//b/"),
            ("/a%20b", "/a b"),
            ("/@scope%2fname", "/@scope/name"),
            ("/@scope%2Fname", "/@scope/name"),
            ("/a%3Fb", "/a%3Fb"),
            ("/a%3fb", "/a%3Fb"),
            ("/a%253fb", "/a%3fb"),
            ("/%C3%BC", "/ü"),
            ("/a?", "/a?"),
            ("/a?x=%2e%2e/../\\%00", "/a?x=%2e%2e/../\\%00"),
            ("/a?b?c", "/a?b?c"),
            ("/100%25", "/100%"),
            ("/%2541", "/%41"),
            ("/...", "/..."),
            ("/..a/.b/a..", "/..a/.b/a.."),
            ("/a;..", "/a;.."),
            ("/a%23b?%23", "/a#b?%23"),
            ("/\"{a|b}^", "/\"{a|b}^"),
            ("/a?{`|^}", "/a?{`|^}"),
            ("/a?q=\"b\"&<c>&\u{fc}", "/a?q=\"b\"&<c>&\u{fc}"),
            ("/%25zz", "/%zz"),
        ] {
            let target = Target::from_wire(raw.as_bytes()).unwrap();
            assert_eq!((target.for_matching(), target.as_received()), (matching, raw.as_bytes()), "{raw}");
        }
    }

    #[test]
    fn refusals() {
        use PathRefusal::{
            Backslash, ControlCharacter, DotSegment, InvalidUtf8, MalformedEscape, NotAbsolute, Unencoded,
            Unprintable,
        };
        for (raw, expected) in [
            ("", NotAbsolute),
            ("*", NotAbsolute),
            ("?x=1", NotAbsolute),
            ("example.com:443", NotAbsolute),
            ("https://example.com/", NotAbsolute),
            ("/a b", Unprintable(b' ')),
            ("/a\0", Unprintable(0)),
            ("/a\x7f", Unprintable(0x7f)),
            ("/ü", Unprintable(0xc3)),
            ("/%", MalformedEscape),
            ("/%2", MalformedEscape),
            ("/%zz", MalformedEscape),
            ("/%u002e", MalformedEscape),
            ("/%+1", MalformedEscape),
            ("/%2%65", MalformedEscape),
            ("/%ff", InvalidUtf8),
            ("/%c0%ae", InvalidUtf8),
            ("/%00", ControlCharacter),
            ("/%0d%0a", ControlCharacter),
            ("/%7f", ControlCharacter),
            ("/%C2%85", ControlCharacter),
            ("/%25C2%2585", ControlCharacter),
            ("/%2500", ControlCharacter),
            ("/%252500", ControlCharacter),
            ("/a#b", Unencoded(b'#')),
            ("/a?b#c", Unencoded(b'#')),
            ("/a#?", Unencoded(b'#')),
            ("/<", Unencoded(b'<')),
            ("/`", Unencoded(b'`')),
            ("/?a b", Unencoded(b' ')),
            ("/?a\tb", Unencoded(b'\t')),
            ("/?\x7f", Unencoded(0x7f)),
            ("/a\\b", Backslash),
            ("/%5c", Backslash),
            ("/%255C", Backslash),
            ("/.", DotSegment),
            ("/..", DotSegment),
            ("/..?x=1", DotSegment),
            ("/..#x", DotSegment),
            ("/..;v=1/", DotSegment),
            ("/.;", DotSegment),
            ("/a/../b", DotSegment),
            ("/a/./b", DotSegment),
            ("/%2e%2e", DotSegment),
            ("/.%2E/x", DotSegment),
            ("/%252e%252e", DotSegment),
            ("/%25252e.", DotSegment),
            ("/..%2f", DotSegment),
            ("/a%2f..", DotSegment),
            ("/..%3Fx", DotSegment),
            ("/..%23x", DotSegment),
            ("/..%253bx", DotSegment),
            ("/x%2f%2e%2e%2fy", DotSegment),
            ("/%2%35", MalformedEscape),
            ("/%25%32%65.", DotSegment),
        ] {
            assert_eq!(Target::from_wire(raw.as_bytes()), Err(expected), "{raw}");
        }
    }

    #[test]
    fn query_is_preserved() {
        let query = |raw: &[u8]| Target::from_wire(raw).unwrap().query().map(<[u8]>::to_vec);
        assert_eq!(query(b"/a"), None);
        assert_eq!(query(b"/a?"), Some(vec![]));
        assert_eq!(query(b"/a?b?%ff"), Some(b"b?%ff".to_vec()));
        assert_eq!(Target::from_wire(b"/a%20b?%20").unwrap().path(), "/a b");
    }

    /// The nesting requires as many decodings as there are characters; decoding level by level
    /// would be quadratic.
    #[test]
    fn deep_nesting_is_decoded_completely() {
        let nested = format!("/%{}2e./x", "25".repeat(32 * 1024));
        assert_eq!(Target::from_wire(nested.as_bytes()), Err(PathRefusal::DotSegment));
        let harmless = format!("/%{}41", "25".repeat(32 * 1024));
        assert!(Target::from_wire(harmless.as_bytes()).is_ok());
    }

    /// One decoding of the whole text; malformed escapes are kept.
    fn decode_level(text: &[u8]) -> Vec<u8> {
        let mut decoded = Vec::new();
        let mut at = 0;
        while at < text.len() {
            match text[at..] {
                [b'%', high, low, ..] if escape(high, low).is_some() => {
                    decoded.extend(escape(high, low));
                    at += 3;
                }
                _ => {
                    decoded.push(text[at]);
                    at += 1;
                }
            }
        }
        decoded
    }

    /// The literal definition: check the path, decode, check again, until nothing changes.
    fn ambiguous_at_some_level(path: &[u8]) -> bool {
        let mut level = path.to_vec();
        loop {
            let text = String::from_utf8_lossy(&level).into_owned();
            let dots = text.split('/').any(|segment| {
                let name = segment.split([';', '?', '#']).next().unwrap();
                name == "." || name == ".."
            });
            if dots || text.contains(|c: char| c == '\\' || c.is_control()) {
                return true;
            }
            let next = decode_level(&level);
            if next == level {
                return false;
            }
            level = next;
        }
    }

    proptest! {
        #[test]
        fn single_pass_agrees_with_repeated_decoding(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("%"), Just("25"), Just("2"), Just("5"), Just("e"), Just("E"), Just("f"), Just("."), Just("/"),
                    Just("c"), Just("C2"), Just("85"), Just("3F"), Just("3b"), Just("a"), Just("0"), Just("%25"),
                    Just("%2e"), Just("%2f"), Just(";"), Just("#"),
                ],
                0..14,
            )
        ) {
            let path = format!("/{}", parts.concat());
            prop_assert_eq!(
                refusal_once_decoded(path.as_bytes(), true).is_some(),
                ambiguous_at_some_level(path.as_bytes()),
                "{}", path
            );
        }

        #[test]
        fn accepted_paths_have_no_dot_segment_at_any_level(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                "/[%2eEfF5./;?#a-c]{0,24}".prop_map(String::into_bytes),
            ]
        ) {
            if let Ok(target) = Target::from_wire(&bytes) {
                let path = bytes.split(|byte| *byte == b'?').next().unwrap();
                prop_assert!(!ambiguous_at_some_level(path));
                prop_assert!(!ambiguous_at_some_level(target.path().as_bytes()));
                prop_assert_eq!(target.as_received(), bytes.as_slice());
                prop_assert!(target.for_matching().starts_with(target.path()));
            }
        }
    }
}
