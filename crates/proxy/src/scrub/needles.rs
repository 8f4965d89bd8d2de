//! Everything that is searched for in an answer.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use sandbox_credentials::SecretValue;
use zeroize::Zeroizing;

use super::base64_forms::base64_forms;
use super::hex_forms::{SPACED_EXPANSION, bare_hex_forms, spaced_hex_forms};
use super::index::{Index, Needle, WINDOW};
use super::text_forms::text_forms;
use super::wrapped::{Run, Unwrapped, may_be_break};

/// Values shorter than this many bytes are not searched for: they would occur in ordinary text.
pub(crate) const LEAST_VALUE: usize = WINDOW;
/// How many times as long as a value its forms are at most, except for control characters and for
/// [`SPACED_EXPANSION`].
const EXPANSION: usize = 6;
/// The last of the whitespace and control characters.
const LAST_CONTROL: u8 = b' ';

/// The real values that must not reach the container, in every form, and their surrogates. `Debug`
/// shows only the number of forms.
#[derive(Clone)]
pub(crate) struct Needles {
    index: Index,
    /// The forms that can occur in the name of a header, in lower case, in which names are read.
    names: Arc<Index>,
    count: usize,
    /// No needle is longer. It depends on the lengths of the values alone, not on which characters
    /// must be escaped, and is a power of two, so that it does not reveal their exact length.
    reach: usize,
    /// One bit for each byte up to [`LAST_CONTROL`]: set if no needle contains it.
    borders: u64,
}

/// Whether a body may change its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// It was announced: a surrogate of another length is truncated, or padded with asterisks.
    Fixed,
    Free,
}

/// A text, or the beginning of one, without real values.
pub(super) struct Cleaned {
    pub(super) output: Bytes,
    /// How many bytes of the text this covers.
    pub(super) covered: usize,
    pub(super) replaced: u32,
}

impl Needles {
    /// Searches for each real value, and replaces it with its surrogate.
    pub(crate) fn new(pairs: impl IntoIterator<Item = (SecretValue, String)>) -> Self {
        let mut names = Index::new();
        let mut needles = Self {
            index: Index::new(),
            names: Arc::default(),
            count: 0,
            reach: 1,
            borders: (1 << (LAST_CONTROL + 1)) - 1,
        };
        for (real, surrogate) in pairs {
            if real.expose().len() >= LEAST_VALUE {
                needles.extend_reach(EXPANSION * real.expose().len());
                for forms in [
                    text_forms(real.expose(), &surrogate),
                    base64_forms(real.expose(), &surrogate),
                    bare_hex_forms(real.expose(), &surrogate),
                ] {
                    add_names(&mut names, &forms);
                    needles.add(forms);
                }
            }
        }
        needles.names = Arc::new(names);
        needles
    }

    /// Also searches for these real values written byte by byte, the form in which a service shows
    /// what should have been signed. A space is then no longer a border: words are withheld, but
    /// lines are not.
    pub(crate) fn with_bytes(mut self, pairs: impl IntoIterator<Item = (SecretValue, String)>) -> Self {
        for (real, surrogate) in pairs {
            if real.expose().len() >= LEAST_VALUE {
                self.extend_reach(SPACED_EXPANSION * real.expose().len());
                self.add(spaced_hex_forms(real.expose(), &surrogate));
            }
        }
        self
    }

    /// The same, and also replaces each credential that one request sent (such as the token of
    /// `Basic`) with the one that it had carried.
    pub(crate) fn with_sent(&self, pairs: impl IntoIterator<Item = (SecretValue, String)>) -> Self {
        let mut needles = self.clone();
        for (sent, received) in pairs {
            if sent.expose().len() >= LEAST_VALUE {
                needles.extend_reach(EXPANSION * sent.expose().len());
                needles.add(text_forms(sent.expose(), &received));
                needles.add(bare_hex_forms(sent.expose(), &received));
            }
        }
        needles
    }

    /// Whether `name`, the name of a header in lower case, contains a value.
    pub(super) fn are_in_name(&self, name: &str) -> bool {
        self.names.find(name.as_bytes(), 0, name.len()).is_some()
    }

    /// Whether there is nothing to search for.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, forms: Vec<(String, String)>) {
        for (real, surrogate) in forms {
            let real = Zeroizing::new(real);
            if *real == surrogate {
                continue;
            }
            // Copies, since the texts have spare capacity for characters that needed no escape.
            let needle = Needle {
                pattern: Zeroizing::new(real.as_bytes().to_vec()),
                replacement: surrogate.as_bytes().to_vec(),
            };
            self.extend_reach(needle.pattern.len());
            let controls = needle.pattern.iter().filter(|byte| **byte <= LAST_CONTROL);
            self.borders = controls.fold(self.borders, |borders, byte| borders & !(1 << byte));
            self.count += usize::from(self.index.add(needle));
        }
    }

    fn extend_reach(&mut self, length: usize) {
        self.reach = self.reach.max(length.next_power_of_two());
    }

    /// How many of the first places of `text` are decided: it is certain, regardless of what
    /// follows, whether a needle begins there. They reach up to the last byte that no needle
    /// contains, and at least up to the length of the longest needle from the end. `before` is the
    /// run that ends the preceding text.
    pub(super) fn certain(&self, text: &[u8], before: Run) -> usize {
        let least = text.len().saturating_sub(self.reach - 1);
        let late = text.get(least..).unwrap_or_default();
        let mut bytes = late.iter().enumerate().rev();
        let border = bytes.find(|(place, byte)| {
            let foreign = **byte <= LAST_CONTROL && self.borders >> **byte & 1 == 1;
            foreign && !(matches!(byte, b'\n' | b'\r') && may_be_break(text, before, least + place))
        });
        border.map_or(least, |(border, _)| least + border + 1)
    }

    /// Replaces each needle that begins at one of the first `certain` places: from the left, and
    /// always the longest. A text without one is not copied. `before` is the run that ends the
    /// preceding text.
    pub(super) fn clean(&self, text: &Bytes, before: Run, certain: usize, length: Length) -> Cleaned {
        let mut output = BytesMut::new();
        let mut covered = 0;
        let mut replaced = 0;
        let unwrapped = Unwrapped::of(text, before);
        let mut plain = self.index.find(text, covered, certain).map(Match::plain);
        let mut wrapped = self.find_wrapped(unwrapped.as_ref(), covered, certain);
        while let Some(found) = nearer(plain.as_ref(), wrapped.as_ref()) {
            output.extend_from_slice(text.get(covered..found.begin).unwrap_or_default());
            put(&mut output, found, text, length);
            covered = found.end;
            replaced += 1;
            if plain.as_ref().is_some_and(|plain| plain.begin < covered) {
                plain = self.index.find(text, covered, certain).map(Match::plain);
            }
            if wrapped.as_ref().is_some_and(|wrapped| wrapped.begin < covered) {
                wrapped = self.find_wrapped(unwrapped.as_ref(), covered, certain);
            }
        }
        let rest = covered..certain.clamp(covered, text.len());
        covered = rest.end;
        let output = if replaced == 0 {
            text.slice(rest)
        } else {
            output.extend_from_slice(text.get(rest).unwrap_or_default());
            output.freeze()
        };
        Cleaned { output, covered, replaced }
    }

    /// Finds the first needle with a break in it.
    fn find_wrapped<'a>(&'a self, text: Option<&Unwrapped>, from: usize, until: usize) -> Option<Match<'a>> {
        let text = text?;
        let mut from = text.unwrapped(from);
        let until = text.unwrapped(until);
        loop {
            let (at, needle) = self.index.find(&text.text, from, until)?;
            let last = at + needle.pattern.len() - 1;
            let breaks: Vec<_> = text.breaks(at, last + 1).collect();
            let (begin, end) = (text.whole(at), text.whole(last) + 1);
            // A match longer than the reach may not have arrived whole.
            if !breaks.is_empty() && end - begin <= self.reach {
                return Some(Match { begin, end, needle, breaks });
            }
            from = at + 1;
        }
    }

    /// Returns the whole text without real values, and how many there were; `None` if there were
    /// none.
    pub(super) fn clean_whole(&self, text: &[u8]) -> Option<(Bytes, u32)> {
        let begin = Run::default();
        let is_clean = self.index.find(text, 0, text.len()).is_none() && Unwrapped::of(text, begin).is_none();
        if is_clean {
            return None;
        }
        let cleaned = self.clean(&Bytes::copy_from_slice(text), begin, text.len(), Length::Free);
        (cleaned.replaced > 0).then_some((cleaned.output, cleaned.replaced))
    }
}

/// Adds the forms that fit into the name of a header.
fn add_names(names: &mut Index, forms: &[(String, String)]) {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    for (real, _) in forms.iter().filter(|(real, _)| real.bytes().all(is_name_byte)) {
        names.add(Needle {
            pattern: Zeroizing::new(real.to_ascii_lowercase().into_bytes()),
            replacement: Vec::new(),
        });
    }
}

impl fmt::Debug for Needles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Needles({} forms)", self.count)
    }
}

/// An occurrence of a needle.
struct Match<'a> {
    begin: usize,
    end: usize,
    needle: &'a Needle,
    /// Line endings within it: the distance from its beginning, not counting line endings, and the
    /// range in the text.
    breaks: Vec<(usize, Range<usize>)>,
}

impl<'a> Match<'a> {
    fn plain((begin, needle): (usize, &'a Needle)) -> Self {
        Self { begin, end: begin + needle.pattern.len(), needle, breaks: Vec::new() }
    }
}

/// The match that begins first; of two that begin together, the longer.
fn nearer<'a, 'n>(plain: Option<&'a Match<'n>>, wrapped: Option<&'a Match<'n>>) -> Option<&'a Match<'n>> {
    match (plain, wrapped) {
        (Some(plain), Some(wrapped)) => {
            let is_first = (plain.begin, wrapped.end) < (wrapped.begin, plain.end);
            Some(if is_first { plain } else { wrapped })
        }
        (plain, wrapped) => plain.or(wrapped),
    }
}

/// Writes the replacement of a needle, with the line endings of the needle.
fn put(output: &mut BytesMut, found: &Match<'_>, text: &[u8], length: Length) {
    let Needle { pattern, replacement } = found.needle;
    let room = match length {
        Length::Fixed => pattern.len(),
        Length::Free => replacement.len(),
    };
    let kept = replacement.get(..room).unwrap_or(replacement);
    let mut done = 0;
    for (at, place) in &found.breaks {
        let at = (*at).min(room);
        put_part(output, kept, done..at);
        output.extend_from_slice(text.get(place.clone()).unwrap_or_default());
        done = at;
    }
    put_part(output, kept, done..room);
}

/// Writes a part of `text`, with asterisks for the bytes beyond its end.
fn put_part(output: &mut BytesMut, text: &[u8], part: Range<usize>) {
    let there = part.end.min(text.len());
    let taken = text.get(part.start.min(there)..there).unwrap_or_default();
    output.extend_from_slice(taken);
    output.put_bytes(b'*', part.len() - taken.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needles(pairs: &[(&str, &str)]) -> Needles {
        Needles::new(pairs.iter().map(|(real, surrogate)| (SecretValue::new(*real), (*surrogate).to_owned())))
    }

    #[track_caller]
    fn check(needles: &Needles, text: &str, expected: &str) {
        let cleaned = needles.clean_whole(text.as_bytes());
        let cleaned = cleaned.map_or_else(|| Bytes::copy_from_slice(text.as_bytes()), |(cleaned, _)| cleaned);
        assert_eq!(String::from_utf8_lossy(&cleaned), expected);
    }

    #[test]
    fn values_are_replaced_in_the_form_they_occur_in() {
        let needles = needles(&[("real/value+one", "fake/value+two"), ("short", "other")]);
        check(&needles, "nothing here", "nothing here");
        check(&needles, "real/value+one", "fake/value+two");
        check(&needles, "real/value+onereal/value+one", "fake/value+twofake/value+two");
        check(&needles, "?q=real%2fvalue%2bone&", "?q=fake%2fvalue%2btwo&");
        check(&needles, r#"{"a":"real\/value+one"}"#, r#"{"a":"fake\/value+two"}"#);
        check(&needles, "<p>real/value&#43;one</p>", "<p>fake/value&#43;two</p>");
        check(&needles, "real/value+on", "real/value+on");
        check(&needles, "a short word", "a short word");
        // "a:real/value+one" and "a:fake/value+two".
        check(&needles, "YTpyZWFsL3ZhbHVlK29uZQ==", "YTpmYWtlL3ZhbHVlK3R3bw==");
    }

    #[test]
    fn longest_value_that_begins_first_wins() {
        let needles = needles(&[
            ("aaaaaaaaaa", "1111111111"),
            ("aaaaaaaaaabbbb", "22222222222222"),
            ("xxaaaaaaaa", "3333333333"),
        ]);
        check(&needles, "aaaaaaaaaabbbb", "22222222222222");
        check(&needles, "aaaaaaaaaabbb", "1111111111bbb");
        check(&needles, "xxaaaaaaaaaabbbb", "3333333333aabbbb");
    }

    #[test]
    fn sent_value_is_replaced_as_a_whole() {
        let base = needles(&[("real-value-one", "fake-value-two")]);
        // "robot:real-value-one" and "robot:fake-value-two".
        let sent = SecretValue::new("cm9ib3Q6cmVhbC12YWx1ZS1vbmU=");
        let needles = base.with_sent([(sent, "cm9ib3Q6ZmFrZS12YWx1ZS10d28=".to_owned())]);
        let echo = "Authorization: Basic cm9ib3Q6cmVhbC12YWx1ZS1vbmU=";
        check(&needles, echo, "Authorization: Basic cm9ib3Q6ZmFrZS12YWx1ZS10d28=");
        check(&needles, "real-value-one", "fake-value-two");
        check(&base, "unchanged", "unchanged");
    }

    #[test]
    fn value_is_found_across_line_endings_of_base64() {
        use base64::prelude::{BASE64_STANDARD, Engine};

        let [real, surrogate] = ["ghp_0123456789abcdefghijKLMNOPqr", "ghp_9081726354qwertyuiopQWERTYui"];
        let needles = needles(&[(real, surrogate)]);
        let wrap = |text: &str, width: usize, end: &str| {
            let lines: Vec<&str> =
                (0..text.len()).step_by(width).map(|at| &text[at..text.len().min(at + width)]).collect();
            lines.join(end)
        };
        for width in [44, 60, 64, 72, 76] {
            for end in ["\n", "\r\n", "\r", "\\n", "\\r\\n"] {
                for before in 0..width {
                    let text = |value: &str| {
                        let whole = format!("{}{value}, and more of it\n", "x".repeat(before));
                        format!("\"{}{end}\"", wrap(&BASE64_STANDARD.encode(whole), width, end))
                    };
                    let cleaned = needles.clean_whole(text(real).as_bytes());
                    let (cleaned, replaced) = cleaned.unwrap_or_else(|| panic!("{width} {end:?} {before}"));
                    assert_eq!(replaced, 1);
                    let decoded = String::from_utf8_lossy(&cleaned).replace(['"', '\r', '\n'], "");
                    let decoded = decoded.replace("\\r", "").replace("\\n", "");
                    let decoded = BASE64_STANDARD.decode(decoded).unwrap();
                    // The first and last characters of base64 may hold bits of both values.
                    let expected = &surrogate.as_bytes()[1..surrogate.len() - 1];
                    assert!(decoded.windows(expected.len()).any(|window| window == expected));
                    assert!(needles.clean_whole(text("something-else").as_bytes()).is_none());
                }
            }
        }
        // Hexadecimal digits are in the alphabet of base64.
        let (digits, _) = bare_hex_forms(real, surrogate).swap_remove(0);
        let cleaned = needles.clean_whole(wrap(&digits, 60, "\n").as_bytes());
        assert_eq!(cleaned.map(|(_, replaced)| replaced), Some(1));
    }

    #[test]
    fn value_with_line_endings_of_its_own_is_found() {
        let line = "A".repeat(64);
        let real = format!("-----BEGIN KEY-----\n{line}\n{line}B\n-----END KEY-----");
        let surrogate = real.replace('A', "C").replace('B', "D");
        let needles = needles(&[(&real, &surrogate)]);
        check(&needles, &format!("x{real}y"), &format!("x{surrogate}y"));
    }

    #[test]
    fn fixed_length_is_kept_across_line_endings() {
        let real = "A1b2C3d4".repeat(8);
        for (surrogate, expected) in [
            ("short", format!("short{}\n{}", "*".repeat(45), "*".repeat(14))),
            ("z".repeat(70).as_str(), format!("{}\n{}", "z".repeat(50), "z".repeat(14))),
        ] {
            let needles = needles(&[(&real, surrogate)]);
            let text = Bytes::from(format!("{}\n{}", &real[..50], &real[50..]));
            let cleaned = needles.clean(&text, Run::default(), text.len(), Length::Fixed);
            assert_eq!((cleaned.output, cleaned.replaced), (Bytes::from(expected), 1));
        }
    }

    #[test]
    fn fixed_length_is_kept() {
        for (surrogate, expected) in [("longer-than-the-value", "longer-than"), ("shorter", "shorter****")] {
            let needles = needles(&[("eleven-real", surrogate)]);
            let text = Bytes::from_static(b"<eleven-real>");
            let cleaned = needles.clean(&text, Run::default(), text.len(), Length::Fixed);
            assert_eq!(cleaned.output, format!("<{expected}>"));
        }
    }

    #[test]
    fn debug_shows_no_value() {
        let needles = needles(&[("real-value-one", "fake-value-two")]);
        let shown = format!("{needles:?}");
        assert!(shown.starts_with("Needles(") && !shown.contains("value"), "{shown}");
        assert!(!needles.is_empty());
        assert!(Needles::new([(SecretValue::new("1234567"), "x".to_owned())]).is_empty());
    }
}
