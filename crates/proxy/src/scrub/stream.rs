//! Replacement of values in text that arrives in chunks.
//!
//! Invariant: how much of a chunk is withheld depends on its length, on the places of whitespace
//! and control characters in it, and on where long runs of base64 end with a line. Never more than
//! six times the length of the longest value (nine times for a signing key), rounded up to a power
//! of two, is withheld, and nothing up to the last such character that no needle contains. Only a
//! line ending directly after a long run of base64 counts as part of a needle: it may be a break in
//! the middle of a value. An event of a stream, which ends in a line feed after a bracket or
//! another line feed, is therefore never delayed, and the delay reveals nothing about a value.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::needles::{Length, Needles};
use super::wrapped::Run;

/// A text that arrives in chunks.
pub(super) struct Stream {
    needles: Arc<Needles>,
    length: Length,
    held: Bytes,
    /// The run that ends the text passed on so far.
    passed: Run,
}

impl Stream {
    /// Starts a text of which nothing has arrived.
    pub(super) fn new(needles: Arc<Needles>, length: Length) -> Self {
        Self { needles, length, held: Bytes::new(), passed: Run::default() }
    }

    /// Takes `chunk`; returns the text that can now be passed on, and the number of values replaced
    /// in it.
    pub(super) fn push(&mut self, chunk: Bytes) -> (Bytes, u32) {
        let text = self.joined(chunk);
        let certain = self.needles.certain(&text, self.passed);
        let cleaned = self.needles.clean(&text, self.passed, certain, self.length);
        self.passed = self.passed.after(text.get(..cleaned.covered).unwrap_or_default());
        // A copy, so that a few bytes do not keep a large chunk in memory.
        self.held = Bytes::copy_from_slice(text.get(cleaned.covered..).unwrap_or_default());
        (cleaned.output, cleaned.replaced)
    }

    /// The same for the last chunk.
    pub(super) fn push_last(&mut self, chunk: Bytes) -> (Bytes, u32) {
        let text = self.joined(chunk);
        let cleaned = self.needles.clean(&text, self.passed, text.len(), self.length);
        (cleaned.output, cleaned.replaced)
    }

    /// The number of bytes withheld.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    fn joined(&mut self, chunk: Bytes) -> Bytes {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return chunk;
        }
        let mut text = BytesMut::with_capacity(held.len() + chunk.len());
        text.extend_from_slice(&held);
        text.extend_from_slice(&chunk);
        text.freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sandbox_credentials::SecretValue;

    use super::super::wrapped::may_be_break;
    use super::*;

    const REAL: &str = "ghp_0123456789abcdefghijABCDEFGHIJ+/wxyz";
    const SURROGATE: &str = "ghp_9081726354qwertyuiopQWERTYUIOP+/asdf";

    fn needles(pairs: &[(&str, &str)]) -> Arc<Needles> {
        Arc::new(Needles::new(secrets(pairs)))
    }

    /// The same for the parts of a signing key.
    fn signing_needles(pairs: &[(&str, &str)]) -> Arc<Needles> {
        Arc::new(Needles::new(secrets(pairs)).with_bytes(secrets(pairs)))
    }

    fn secrets(pairs: &[(&str, &str)]) -> impl Iterator<Item = (SecretValue, String)> {
        let secret = |(real, surrogate): &(&str, &str)| (SecretValue::new(*real), (*surrogate).to_owned());
        pairs.iter().map(secret)
    }

    /// The form of `text` in S3's answer to a wrong signature.
    fn bytes(text: &str) -> String {
        let pairs: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        pairs.join(" ")
    }

    /// The output at each chunk, then the output at the end.
    fn run(needles: &Arc<Needles>, chunks: &[Vec<u8>]) -> Vec<Bytes> {
        let mut stream = Stream::new(Arc::clone(needles), Length::Free);
        let mut out: Vec<Bytes> = chunks.iter().map(|chunk| stream.push(chunk.clone().into()).0).collect();
        out.push(stream.push_last(Bytes::new()).0);
        out
    }

    fn lengths(needles: &Arc<Needles>, chunks: &[Vec<u8>]) -> Vec<usize> {
        run(needles, chunks).iter().map(Bytes::len).collect()
    }

    #[test]
    fn complete_line_without_a_value_is_passed_on_uncopied() {
        let mut stream = Stream::new(needles(&[(REAL, SURROGATE)]), Length::Free);
        let event = Bytes::from(format!("data: {}\n\n", &REAL[..30]));
        let (passed, replaced) = stream.push(event.clone());
        assert_eq!((passed.as_ptr(), passed.len(), replaced), (event.as_ptr(), event.len(), 0));
        assert_eq!(stream.held(), 0);
    }

    #[test]
    fn value_with_spaces_delays_words_but_not_lines() {
        let mut stream = Stream::new(needles(&[("a pass phrase", "b fake fhrase")]), Length::Free);
        assert_eq!(stream.push("one two ".into()).0, "");
        assert_eq!(stream.push("three\nfour ".into()).0, "one two three\n");
        assert_eq!(stream.push_last("a pass phrase".into()).0, "four b fake fhrase");
    }

    #[test]
    fn signing_key_delays_words_but_not_lines() {
        let key = [(REAL, SURROGATE)];
        for (needles, passed) in [(needles(&key), "one two "), (signing_needles(&key), "")] {
            let mut stream = Stream::new(needles, Length::Free);
            assert_eq!(stream.push("one two thr".into()).0, passed);
            stream.push("ee\n".into());
            let event = Bytes::from(format!("data: {} four\n\n", &bytes(REAL)[..80]));
            assert_eq!(stream.push(event.clone()).0, event);
            assert_eq!(stream.held(), 0);
        }
    }

    #[test]
    fn page_of_hex_bytes_is_cleaned_wherever_it_is_split() {
        let page = |token: &str| {
            let escaped = token.replace('+', "%2B").replace('/', "%2F");
            let request =
                format!("GET\n/key\nX-Amz-Security-Token={escaped}\nx-amz-security-token:{token}\n\nhost");
            let bytes = bytes(&request);
            format!(
                "<Error><CanonicalRequestBytes>{bytes}</CanonicalRequestBytes><HostId>one two</HostId></Error>"
            )
        };
        let (echoed, expected) = (page(REAL), page(SURROGATE));
        let needles = signing_needles(&[(REAL, SURROGATE)]);
        for place in 0..echoed.len() {
            let (before, after) = echoed.as_bytes().split_at(place);
            let out = run(&needles, &[before.to_vec(), after.to_vec()]).concat();
            assert_eq!(String::from_utf8_lossy(&out), expected, "{place}");
        }
        let single: Vec<Vec<u8>> = echoed.bytes().map(|byte| vec![byte]).collect();
        assert_eq!(run(&needles, &single).concat(), expected.as_bytes());
    }

    #[test]
    fn value_of_several_lines_is_found() {
        let real = "-----BEGIN KEY-----\nabcdef\n-----END KEY-----\n";
        let needles = needles(&[(real, "none")]);
        let chunks: Vec<Vec<u8>> = format!("<{real}>").bytes().map(|byte| vec![byte]).collect();
        assert_eq!(run(&needles, &chunks).concat(), b"<none>");
    }

    #[test]
    fn guesses_of_a_value_are_withheld_like_any_text() {
        let needles = needles(&[(REAL, SURROGATE)]);
        for length in 1..REAL.len() {
            let near = vec![REAL.as_bytes()[..length].to_vec()];
            let far = vec![vec![b'z'; length]];
            assert_eq!(lengths(&needles, &near), lengths(&needles, &far), "{length}");
        }
    }

    /// Splits `text` at each of `cuts`.
    fn split(text: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        places.extend([0, text.len()]);
        places.sort_unstable();
        places.windows(2).map(|ends| text[ends[0]..ends[1]].to_vec()).collect()
    }

    #[test]
    fn line_that_may_continue_waits_for_the_next() {
        let mut stream = Stream::new(needles(&[(REAL, SURROGATE)]), Length::Free);
        let line = "A".repeat(60);
        assert_eq!(stream.push(format!("{line}\n").into()).0, "");
        assert_eq!(stream.push("\n".into()).0, format!("{line}\n\n"));
        // Neither prose nor a document that ends in a bracket is such a line.
        for event in ["a line of a log\n", "{\"a\":\"b\"}\n", "data: A\n\n"] {
            assert_eq!(stream.push(event.into()).0, event);
        }
    }

    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let known = [
            REAL,
            &REAL[..39],
            &REAL[1..],
            "ghp_0123456789abcdefghijABCDEFGHIJ%2B%2Fwxyz",
            "ghp_0123456789abcdefghijABCDEFGHIJ+\\/wxyz",
            "Z2hwXzAxMjM0NTY3ODlhYmNkZWZnaGlqQUJDREVGR0hJSisvd3h5eg==",
            "ZGF0YSBiZWZvcmUgYSB2YWx1ZSwgaW4gYmFzZTY0IHRoYXQgaXMg\nZ2hwXzAxMjM0NTY3ODlhYmNkZWZnaGlqQUJDREVGR0hJSisvd3h5eg==",
            "Z2hwXzAxMjM0NTY3ODlhYmNkZWZnaGlqQUJDREVGR0hJSisv\r\nd3h5eg==",
            "ZGF0YSBiZWZvcmUgYSB2YWx1ZSwgaW4gYmFzZTY0IHRoYXQg\\nZ2hwXzAxMjM0NTY3ODlhYmNkZWZnaGlqQUJDREVGR0hJSisv\\nd3h5eg==",
            "\r\n",
            "\r",
            &bytes(REAL),
            &bytes(REAL)[..90],
            &bytes("ghp_0123456789abcdefghijABCDEFGHIJ%2B%2Fwxyz"),
            &bytes(REAL).replace(' ', ""),
            "\n",
            " ",
            "ghp_",
        ];
        let known = prop::sample::select(known.map(|piece| piece.as_bytes().to_vec()).to_vec());
        let piece = prop_oneof![
            known,
            prop::collection::vec(any::<u8>(), 0..90),
            "[ -~]{0,200}".prop_map(String::into_bytes)
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn result_does_not_depend_on_how_text_is_split(
            text in pieces(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12), is_key in any::<bool>(),
        ) {
            let needles = if is_key { signing_needles } else { needles }(&[(REAL, SURROGATE)]);
            let whole = needles.clean_whole(&text).map_or_else(|| text.clone(), |(cleaned, _)| cleaned.to_vec());
            prop_assert!(needles.clean_whole(&whole).is_none());
            prop_assert_eq!(run(&needles, &split(&text, &cuts)).concat(), whole);
        }

        /// The text is everything that the container sees or chooses; the two values have the same
        /// length and the same character classes.
        #[test]
        fn delay_reveals_nothing_about_a_value(
            real in "[a-z]{4}_[A-Za-z0-9]{30}", other in "[a-z]{4}_[A-Za-z0-9]{30}",
            guess in 0_usize..35, text in pieces(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            is_key in any::<bool>(),
        ) {
            let needles = if is_key { signing_needles } else { needles };
            let guess = if is_key { bytes(&real[..guess]) } else { real[..guess].to_owned() };
            let text = [&text, guess.as_bytes()].concat();
            let chunks = split(&text, &cuts);
            prop_assert_eq!(
                lengths(&needles(&[(&real, SURROGATE)]), &chunks),
                lengths(&needles(&[(&other, SURROGATE)]), &chunks)
            );
        }

        #[test]
        fn withheld_bytes_are_bounded(
            text in pieces(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12), is_key in any::<bool>(),
        ) {
            let needles = if is_key { signing_needles } else { needles }(&[(REAL, SURROGATE)]);
            let (most, least_text) = if is_key { (511, b' ') } else { (255, b'!') };
            let mut stream = Stream::new(Arc::clone(&needles), Length::Fixed);
            let mut passed = 0;
            let mut seen = Vec::new();
            for chunk in split(&text, &cuts) {
                seen.extend_from_slice(&chunk);
                passed += stream.push(chunk.into()).0.len();
                prop_assert_eq!(passed + stream.held(), seen.len());
                let is_text = |place: &usize| {
                    let byte = seen[*place];
                    byte >= least_text || (b"\r\n".contains(&byte) && may_be_break(&seen, Run::default(), *place))
                };
                let since_border = (0..seen.len()).rev().take_while(is_text).count();
                prop_assert!(stream.held() <= since_border.min(most));
            }
        }
    }
}
