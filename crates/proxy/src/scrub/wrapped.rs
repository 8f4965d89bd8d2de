//! Text that is broken into lines, like base64 in mail and in the answers of code hosts.
//!
//! A line ending counts as a break if at least [`LINE`] base64 characters directly precede it and
//! one directly follows it: a value may then continue on the next line. Line endings are `\n`,
//! `\r\n` and `\r`, raw or as JSON escapes. Everything here depends on the text alone, never on the
//! values searched for.

use memchr::memchr3_iter;

/// The minimum number of characters of a broken line. The narrowest lines in use have 60; a lower
/// minimum would delay lines of prose and logs that end in a long word or path.
pub(super) const LINE: usize = 40;

/// The base64 characters that a text ends with, as far as they matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Run {
    /// At most [`LINE`].
    count: usize,
    /// A backslash follows them: JSON may escape `/` with it.
    escape: bool,
}

impl Run {
    /// The run at the end of `text`, which follows a text that ends with this run.
    pub(super) fn after(self, text: &[u8]) -> Self {
        let (body, escape) = match text {
            [] => return self,
            [body @ .., b'\\'] => (body, true),
            body => (body, false),
        };
        let mut count = 0;
        let mut next = if escape { b'\\' } else { 0 };
        for byte in body.iter().rev() {
            if count == LINE {
                return Self { count, escape };
            }
            match byte {
                byte if is_base64(*byte) => count += 1,
                b'\\' if next == b'/' => {}
                _ => return Self { count, escape },
            }
            next = *byte;
        }
        // All of the text belongs to the run, which may have begun before.
        let joined = !self.escape || next == b'/';
        let before = if joined { self.count } else { 0 };
        let count = LINE.min(count + before);
        Self { count, escape }
    }

    /// Whether a line ending after this run may be a break.
    fn is_line(self) -> bool {
        self.count == LINE && !self.escape
    }
}

/// Whether the byte at `place` in `text`, a line feed or carriage return, may be a break within a
/// value, regardless of what follows. `before` is the run that ends the preceding text.
pub(super) fn may_be_break(text: &[u8], before: Run, place: usize) -> bool {
    let line = text.get(..place).unwrap_or_default();
    let line = match (text.get(place), line) {
        (Some(b'\n'), [line @ .., b'\r']) => line,
        _ => line,
    };
    before.after(line).is_line()
}

/// A text without its breaks.
pub(super) struct Unwrapped {
    /// The text.
    pub(super) text: Vec<u8>,
    breaks: Vec<Break>,
}

/// A break that was removed.
struct Break {
    /// Where it was, in the text without breaks.
    at: usize,
    /// Where it begins and ends in the whole text.
    begin: usize,
    end: usize,
}

impl Unwrapped {
    /// Returns `None` if there is no break. `before` is the run that ends the preceding text.
    pub(super) fn of(text: &[u8], before: Run) -> Option<Self> {
        let mut breaks: Vec<Break> = Vec::new();
        let mut unwrapped = Vec::new();
        let mut done = 0;
        for begin in memchr3_iter(b'\n', b'\r', b'\\', text) {
            if begin < done {
                continue;
            }
            let (line, rest) = text.split_at(begin);
            let Some(end) = break_length(rest).map(|length| begin + length) else {
                continue;
            };
            let continues = text.get(end).is_some_and(|next| is_base64(*next));
            if !continues || !before.after(line).is_line() {
                continue;
            }
            unwrapped.extend_from_slice(text.get(done..begin).unwrap_or_default());
            let at = unwrapped.len();
            breaks.push(Break { at, begin, end });
            done = end;
        }
        if breaks.is_empty() {
            return None;
        }
        unwrapped.extend_from_slice(text.get(done..).unwrap_or_default());
        Some(Self { text: unwrapped, breaks })
    }

    /// The place in the whole text of the byte at `at` in this one.
    pub(super) fn whole(&self, at: usize) -> usize {
        let passed = self.breaks.partition_point(|wrap| wrap.at <= at);
        match passed.checked_sub(1).and_then(|last| self.breaks.get(last)) {
            Some(last) => last.end + (at - last.at),
            None => at,
        }
    }

    /// The place in this text of the byte at `place` in the whole text; if that is within a break,
    /// the place after the break.
    pub(super) fn unwrapped(&self, place: usize) -> usize {
        let passed = self.breaks.partition_point(|wrap| wrap.begin < place);
        match passed.checked_sub(1).and_then(|last| self.breaks.get(last)) {
            Some(last) => last.at + place.saturating_sub(last.end),
            None => place,
        }
    }

    /// The breaks strictly between two places of this text: the distance of each from `from`, and
    /// its range in the whole text.
    pub(super) fn breaks(
        &self,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
        let first = self.breaks.partition_point(|wrap| wrap.at <= from);
        let breaks = self.breaks.get(first..).unwrap_or_default().iter();
        breaks.take_while(move |wrap| wrap.at < to).map(move |wrap| (wrap.at - from, wrap.begin..wrap.end))
    }
}

/// The length of the line ending that `text` begins with.
fn break_length(text: &[u8]) -> Option<usize> {
    const ENDS: [&[u8]; 6] = [b"\r\n", b"\n", b"\r", b"\\r\\n", b"\\n", b"\\r"];
    ENDS.iter().find(|end| text.starts_with(end)).map(|end| end.len())
}

/// Whether `byte` is in either alphabet, not counting padding.
fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn breaks_are_removed_and_located() {
        let line = "A".repeat(LINE);
        for end in ["\n", "\r\n", "\r", "\\n", "\\r\\n", "\\r"] {
            let text = format!("x {line}{end}{line}{end}bc{end}d");
            let unwrapped = Unwrapped::of(text.as_bytes(), Run::default()).unwrap();
            let expected = format!("x {line}{line}bc{end}d");
            assert_eq!(String::from_utf8_lossy(&unwrapped.text), expected, "{end:?}");
            for at in 0..unwrapped.text.len() {
                let place = unwrapped.whole(at);
                assert_eq!(text.as_bytes().get(place), unwrapped.text.get(at), "{at}");
                assert_eq!(unwrapped.unwrapped(place), at);
            }
            let breaks: Vec<_> = unwrapped.breaks(2, unwrapped.text.len()).collect();
            assert_eq!(breaks.len(), 2);
            assert!(breaks.iter().all(|(_, place)| text.get(place.clone()) == Some(end)));
            assert_eq!(unwrapped.breaks(2, 2 + LINE).count(), 0);
        }
    }

    #[test]
    fn other_line_endings_do_not_join_base64() {
        let line = "A".repeat(LINE);
        let short = &line[1..];
        for text in [
            format!("{short}\nb"),
            format!("{line}=\nb"),
            format!("{line}.\nb"),
            format!("{line}\n b"),
            format!("{line}\n\nb"),
            format!("{line}\n"),
            format!("{line}\\tb"),
            format!("{line}\\\nb"),
        ] {
            assert!(Unwrapped::of(text.as_bytes(), Run::default()).is_none(), "{text:?}");
        }
        let before = Run::default().after(b"A");
        assert!(Unwrapped::of(format!("{short}\nb").as_bytes(), before).is_some());
        // JSON may write `/` as `\/`.
        let escaped = format!("{}\\/{}\\nb", &line[20..], &line[19..]);
        assert!(Unwrapped::of(escaped.as_bytes(), Run::default()).is_some());
    }

    proptest! {
        #[test]
        fn run_does_not_depend_on_how_the_text_is_split(
            pieces in prop::collection::vec(prop_oneof![Just("a".repeat(15)), Just("\\".into()), Just("/".into()), Just(" ".into())], 0..9),
            cut in any::<prop::sample::Index>(),
        ) {
            let text = pieces.concat();
            let (first, second) = text.split_at(cut.index(text.len() + 1));
            let whole = Run::default().after(text.as_bytes());
            prop_assert_eq!(Run::default().after(first.as_bytes()).after(second.as_bytes()), whole);
        }
    }
}
