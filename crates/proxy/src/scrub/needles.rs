//! All that is looked for in a response.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use sandbox_credentials::SecretValue;
use zeroize::Zeroizing;

use super::base64_forms::base64_forms;
use super::hex_forms::{SPACED_EXPANSION, bare_hex_forms, spaced_hex_forms};
use super::index::{Index, Needle, WINDOW};
use super::text_forms::text_forms;

/// Shorter values than so many bytes are not looked for: they would occur in ordinary text.
pub(crate) const LEAST_VALUE: usize = WINDOW;
/// How much longer than a value its forms are at most, but for control characters and for [`SPACED_EXPANSION`].
const EXPANSION: usize = 6;
/// White space and control characters.
const LAST_CONTROL: u8 = b' ';

/// The real values that must not reach the container, in every form, and their surrogates. `Debug` shows how many forms there are.
#[derive(Clone)]
pub(crate) struct Needles {
    index: Index,
    count: usize,
    /// No needle is longer. It follows from the lengths of the values alone, not from what must be escaped in them, and is a power of
    /// two, so that it does not tell how long exactly they are.
    reach: usize,
    /// One bit for each byte up to [`LAST_CONTROL`]: set where no needle contains it.
    borders: u64,
}

/// Whether a body may change its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// It was announced: a surrogate of another length is cut, or filled with asterisks.
    Fixed,
    Free,
}

/// A text, or the beginning of one, without real values.
pub(super) struct Cleaned {
    pub(super) output: Bytes,
    /// How much of the text this covers.
    pub(super) covered: usize,
    pub(super) replaced: u32,
}

impl Needles {
    /// Looks for each real value, and puts its surrogate in its place.
    pub(crate) fn new(pairs: impl IntoIterator<Item = (SecretValue, String)>) -> Self {
        let mut needles = Self {
            index: Index::new(),
            count: 0,
            reach: 1,
            borders: (1 << (LAST_CONTROL + 1)) - 1,
        };
        for (real, surrogate) in pairs {
            if real.expose().len() >= LEAST_VALUE {
                needles.extend_reach(EXPANSION * real.expose().len());
                needles.add(text_forms(real.expose(), &surrogate));
                needles.add(base64_forms(real.expose(), &surrogate));
                needles.add(bare_hex_forms(real.expose(), &surrogate));
            }
        }
        needles
    }

    /// Looks for these real values also where they are shown byte by byte, which a service does with what it should have been signed.
    /// Then a space is no border any more: words are held back, and only lines are not.
    pub(crate) fn with_bytes(mut self, pairs: impl IntoIterator<Item = (SecretValue, String)>) -> Self {
        for (real, surrogate) in pairs {
            if real.expose().len() >= LEAST_VALUE {
                self.extend_reach(SPACED_EXPANSION * real.expose().len());
                self.add(spaced_hex_forms(real.expose(), &surrogate));
            }
        }
        self
    }

    /// The same, and what one request sent (a header's credential, such as the token of `Basic`) in exchange for what it had carried.
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

    /// Whether nothing is looked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, forms: Vec<(String, String)>) {
        for (real, surrogate) in forms {
            let real = Zeroizing::new(real);
            if *real == surrogate {
                continue;
            }
            // Copies, since the texts have room for what did not have to be escaped.
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

    /// At how many of the first places of `text` it is certain, whatever may follow, whether a needle begins there: up to the last
    /// byte that no needle contains, at least up to the longest needle's length from the end.
    pub(super) fn certain(&self, text: &[u8]) -> usize {
        let least = text.len().saturating_sub(self.reach - 1);
        let late = text.get(least..).unwrap_or_default();
        late.iter()
            .rposition(|byte| *byte <= LAST_CONTROL && self.borders >> byte & 1 == 1)
            .map_or(least, |border| least + border + 1)
    }

    /// Replaces each needle that begins at one of the first `certain` places: from the left, and always the longest. A text without
    /// one is not copied.
    pub(super) fn clean(&self, text: &Bytes, certain: usize, length: Length) -> Cleaned {
        let mut output = BytesMut::new();
        let mut covered = 0;
        let mut replaced = 0;
        while let Some((place, needle)) = self.index.find(text, covered, certain) {
            output.extend_from_slice(text.get(covered..place).unwrap_or_default());
            put(&mut output, needle, length);
            covered = place + needle.pattern.len();
            replaced += 1;
        }
        let rest = covered..certain.clamp(covered, text.len());
        covered = rest.end;
        let output = if replaced == 0 {
            text.slice(rest)
        } else {
            output.extend_from_slice(text.get(rest).unwrap_or_default());
            output.freeze()
        };
        Cleaned {
            output,
            covered,
            replaced,
        }
    }

    /// A whole text without real values, and how many there were; `None` if there were none.
    pub(super) fn clean_whole(&self, text: &[u8]) -> Option<(Bytes, u32)> {
        self.index.find(text, 0, text.len())?;
        let cleaned = self.clean(&Bytes::copy_from_slice(text), text.len(), Length::Free);
        Some((cleaned.output, cleaned.replaced))
    }
}

impl fmt::Debug for Needles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Needles({} forms)", self.count)
    }
}

fn put(output: &mut BytesMut, needle: &Needle, length: Length) {
    let room = match length {
        Length::Fixed => needle.pattern.len(),
        Length::Free => needle.replacement.len(),
    };
    let kept = needle.replacement.len().min(room);
    output.extend_from_slice(needle.replacement.get(..kept).unwrap_or_default());
    output.put_bytes(b'*', room - kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needles(pairs: &[(&str, &str)]) -> Needles {
        Needles::new(
            pairs
                .iter()
                .map(|(real, surrogate)| (SecretValue::new(*real), (*surrogate).to_owned())),
        )
    }

    #[track_caller]
    fn check(needles: &Needles, text: &str, expected: &str) {
        let cleaned = needles.clean_whole(text.as_bytes());
        let cleaned = cleaned.map_or_else(|| Bytes::copy_from_slice(text.as_bytes()), |(cleaned, _)| cleaned);
        assert_eq!(String::from_utf8_lossy(&cleaned), expected);
    }

    #[test]
    fn values_are_replaced_in_the_form_they_are_written_in() {
        let needles = needles(&[("real/value+one", "fake/value+two"), ("short", "other")]);
        check(&needles, "nothing here", "nothing here");
        check(&needles, "real/value+one", "fake/value+two");
        check(
            &needles,
            "real/value+onereal/value+one",
            "fake/value+twofake/value+two",
        );
        check(&needles, "?q=real%2fvalue%2bone&", "?q=fake%2fvalue%2btwo&");
        check(
            &needles,
            r#"{"a":"real\/value+one"}"#,
            r#"{"a":"fake\/value+two"}"#,
        );
        check(&needles, "<p>real/value&#43;one</p>", "<p>fake/value&#43;two</p>");
        check(&needles, "real/value+on", "real/value+on");
        check(&needles, "a short word", "a short word");
        // "a:real/value+one" and "a:fake/value+two".
        check(&needles, "YTpyZWFsL3ZhbHVlK29uZQ==", "YTpmYWtlL3ZhbHVlK3R3bw==");
    }

    #[test]
    fn the_longest_value_that_begins_first_wins() {
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
    fn what_a_request_sent_is_replaced_as_a_whole() {
        let base = needles(&[("real-value-one", "fake-value-two")]);
        // "robot:real-value-one" and "robot:fake-value-two".
        let sent = SecretValue::new("cm9ib3Q6cmVhbC12YWx1ZS1vbmU=");
        let needles = base.with_sent([(sent, "cm9ib3Q6ZmFrZS12YWx1ZS10d28=".to_owned())]);
        let echo = "Authorization: Basic cm9ib3Q6cmVhbC12YWx1ZS1vbmU=";
        check(
            &needles,
            echo,
            "Authorization: Basic cm9ib3Q6ZmFrZS12YWx1ZS10d28=",
        );
        check(&needles, "real-value-one", "fake-value-two");
        check(&base, "unchanged", "unchanged");
    }

    #[test]
    fn a_fixed_length_is_kept() {
        for (surrogate, expected) in [
            ("longer-than-the-value", "longer-than"),
            ("shorter", "shorter****"),
        ] {
            let needles = needles(&[("eleven-real", surrogate)]);
            let text = Bytes::from_static(b"<eleven-real>");
            let cleaned = needles.clean(&text, text.len(), Length::Fixed);
            assert_eq!(cleaned.output, format!("<{expected}>"));
        }
    }

    #[test]
    fn debug_shows_no_value() {
        let needles = needles(&[("real-value-one", "fake-value-two")]);
        let shown = format!("{needles:?}");
        assert!(
            shown.starts_with("Needles(") && !shown.contains("value"),
            "{shown}"
        );
        assert!(!needles.is_empty());
        assert!(Needles::new([(SecretValue::new("1234567"), "x".to_owned())]).is_empty());
    }
}
