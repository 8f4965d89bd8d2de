//! Matching by simulating all positions of the pattern at once.
//!
//! Bit `i` of the state is set if the text read so far can be matched by the first `i` tokens. A
//! character advances every position whose token matches it, and keeps every position that has a
//! `*` before its token. Nothing is tried twice, so the time is `text × (tokens / 64)` for any
//! pattern: there is no backtracking.

use super::class::Token;

const ASCII: usize = 128;
pub(super) const WORD: usize = u64::BITS as usize;

/// Bit tables of a pattern; empty for one without wildcards, which is compared as text.
#[derive(Clone, Default)]
pub(super) struct Tables {
    /// Number of words in a state.
    words: usize,
    /// For every ASCII character, `words` words: the tokens that match it.
    hits: Vec<u64>,
    /// The positions that have a `*`.
    stars: Vec<u64>,
}

impl Tables {
    pub(super) fn new(tokens: &[Token], stars: &[bool], exact: bool) -> Self {
        if exact {
            return Self::default();
        }
        let words = stars.len().div_ceil(WORD);
        let mut tables = Self { words, hits: Vec::with_capacity(words * ASCII), stars: vec![0; words] };
        for code in 0..128_u8 {
            let mut row = vec![0; words];
            fill(&mut row, tokens, char::from(code));
            tables.hits.extend(row);
        }
        for (index, _) in stars.iter().enumerate().filter(|(_, star)| **star) {
            set(&mut tables.stars, index);
        }
        tables
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words == 0
    }

    fn ascii_hits(&self, character: char) -> Option<&[u64]> {
        let row = usize::try_from(u32::from(character)).ok()? * self.words;
        self.hits.get(row..row + self.words)
    }

    /// Whether the whole of `text` matches the `tokens` of the tables; `open_ended` if they end in
    /// `*`.
    pub(super) fn match_text(&self, tokens: &[Token], open_ended: bool, text: &str) -> bool {
        let mut scratch = vec![0; self.words];
        self.run(tokens.len(), open_ended, text, |state, character| {
            let hits = if let Some(row) = self.ascii_hits(character) {
                row
            } else {
                scratch.fill(0);
                fill(&mut scratch, tokens, character);
                &scratch
            };
            advance(state, hits, &self.stars)
        })
    }

    /// The same, if a token matches a letter in either case.
    pub(super) fn match_in_any_case(&self, tokens: &[Token], open_ended: bool, text: &str) -> bool {
        let mut hits = vec![0; self.words];
        self.run(tokens.len(), open_ended, text, |state, character| {
            hits.fill(0);
            let cases = character.to_lowercase().chain(character.to_uppercase()).chain([character]);
            for same in cases {
                match self.ascii_hits(same) {
                    Some(row) => hits.iter_mut().zip(row).for_each(|(all, these)| *all |= these),
                    None => fill(&mut hits, tokens, same),
                }
            }
            advance(state, &hits, &self.stars)
        })
    }

    /// Whether the `last` position is reached at the end of `text`; `read` advances the state by one
    /// character and returns false if no position is left.
    fn run(
        &self,
        last: usize,
        open_ended: bool,
        text: &str,
        mut read: impl FnMut(&mut [u64], char) -> bool,
    ) -> bool {
        let mut state = vec![0; self.words];
        set(&mut state, 0);
        for character in text.chars() {
            // Once everything before a final `*` is matched, the rest of the text matches too.
            if open_ended && is_set(&state, last) {
                return true;
            }
            if !read(&mut state, character) {
                return false;
            }
        }
        is_set(&state, last)
    }
}

/// Reads one character; false if no position is left.
pub(super) fn advance(state: &mut [u64], hits: &[u64], stars: &[u64]) -> bool {
    let mut carry = 0;
    let mut alive = 0;
    for ((word, hits), stars) in state.iter_mut().zip(hits).zip(stars) {
        let moved = *word & hits;
        *word = (moved << 1) | carry | (*word & stars);
        carry = moved >> (WORD - 1);
        alive |= *word;
    }
    alive != 0
}

pub(super) fn fill(row: &mut [u64], tokens: &[Token], character: char) {
    for (index, _) in tokens.iter().enumerate().filter(|(_, token)| token.matches(character)) {
        set(row, index);
    }
}

pub(super) fn set(row: &mut [u64], bit: usize) {
    if let Some(word) = row.get_mut(bit / WORD) {
        *word |= 1 << (bit % WORD);
    }
}

pub(super) fn is_set(row: &[u64], bit: usize) -> bool {
    row.get(bit / WORD).is_some_and(|word| word & (1 << (bit % WORD)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use proptest::prelude::*;

    /// Answers of Python 3.11's `fnmatch.fnmatchcase`.
    const PYTHON: &[(&str, &str, bool)] = &[
        ("*", "", true),
        ("*", "a/b.c", true),
        ("?", "", false),
        ("?", "a", true),
        ("?", "é", true),
        ("a*b", "ab", true),
        ("a*b", "axxb", true),
        ("a*b", "axxbc", false),
        ("**", "x", true),
        ("*a*b*", "xaybz", true),
        ("*a*b*", "xbya", false),
        ("[abc]", "b", true),
        ("[abc]", "d", false),
        ("[a-z]", "m", true),
        ("[a-z]", "M", false),
        ("[a-c-e]", "-", true),
        ("[a-c-e]", "d", false),
        ("[!a]", "b", true),
        ("[!a]", "a", false),
        ("[!a]", "/", true),
        ("[!a]", "", false),
        ("[]a]", "]", true),
        ("[]a]", "a", true),
        ("[]-a]", "_", true),
        ("[]-a]", "-", false),
        ("[!]a]", "]", false),
        ("[!]a]", "b", true),
        ("[^a]", "^", true),
        ("[^a]", "a", true),
        ("[^a]", "b", false),
        ("[z-a]", "m", false),
        ("[z-a]", "z", false),
        ("[!z-a]", "m", true),
        ("[b-az]", "z", true),
        ("[b-az]", "a", false),
        ("[b-a!x]", "x", false),
        ("[b-a!x]", "y", true),
        ("[b-a!-z]", "y", true),
        ("[b-a!-z]", "-", false),
        ("[a", "[a", true),
        ("[a", "a", false),
        ("[", "[", true),
        ("[]", "[]", true),
        ("[!]", "[!]", true),
        ("[!]", "a", false),
        ("[!", "[!", true),
        ("[a-]", "-", true),
        ("[a-]", "a", true),
        ("[-a]", "-", true),
        ("[--a]", "/", true),
        ("[a--b]", "b", true),
        ("[a--b]", "-", false),
        ("[!-a]", "-", false),
        ("[!-a]", "b", true),
        ("[[]", "[", true),
        ("[[]", "]", false),
        ("[\\]", "\\", true),
        ("[a&&b]", "&", true),
        ("[a||b]", "|", true),
        ("[~~]", "~", true),
        ("a[*]b", "a*b", true),
        ("a[*]b", "axb", false),
        ("a[?]b", "a?b", true),
        ("a[?]b", "axb", false),
        ("\\*", "\\x", true),
        ("\\*", "*", false),
        ("*.example.com", "a.b.example.com", true),
        ("*.example.com", "example.com", false),
        ("/repos/*", "/repos/", true),
        ("/repos/*", "/repos", false),
        ("a.c", "abc", false),
        ("*\n", "x\n", true),
        ("x", "x\n", false),
        ("[a-z]*[0-9]", "ab1", true),
        ("[a-z]*[0-9]", "ab1x", false),
        ("]", "]", true),
        ("a]", "a]", true),
        ("[é-ü]", "ï", true),
        ("[é-ü]", "z", false),
    ];

    #[test]
    fn agrees_with_python() {
        for (pattern, text, expected) in PYTHON {
            assert_eq!(Pattern::compile(pattern).matches(text), *expected, "{pattern:?} against {text:?}");
        }
    }

    #[test]
    fn long_pattern_uses_several_words() {
        for length in [62, 63, 64, 65, 127, 128, 129, 200] {
            let text = "ab".repeat(length);
            let pattern = Pattern::compile(&format!("{text}*"));
            assert!(pattern.matches(&text) && pattern.matches(&format!("{text}x")), "{length}");
            assert!(!pattern.matches(&text[1..]), "{length}");
            let pattern = Pattern::compile(&format!("*{}", "?".repeat(length)));
            assert!(pattern.matches(&"é".repeat(length)) && pattern.matches(&"é".repeat(length + 1)));
            assert!(!pattern.matches(&"é".repeat(length - 1)), "{length}");
        }
    }

    /// With backtracking this would practically never end.
    #[test]
    fn pattern_of_many_stars_is_as_fast_as_one() {
        let text = "a".repeat(64 * 1024);
        assert!(!Pattern::compile(&format!("{}b", "*a".repeat(40))).matches(&text));
        assert!(Pattern::compile(&"*a".repeat(40)).matches(&text));
    }

    #[test]
    fn escaped_text_matches_itself_only() {
        let pattern = Pattern::compile(&Pattern::escape("/a*b?[c]"));
        assert!(pattern.matches("/a*b?[c]"));
        assert!(!pattern.matches("/axb?[c]") && !pattern.matches("/a*bx[c]") && !pattern.matches("/a*b?c"));
    }

    /// The definition as a recursion: exponential, but obviously correct.
    fn reference(tokens: &[(bool, Option<&Token>)], text: &[char]) -> bool {
        let [(star, token), rest @ ..] = tokens else {
            return text.is_empty();
        };
        let here = match (token, text) {
            (None, _) => text.is_empty(),
            (Some(token), [first, tail @ ..]) => token.matches(*first) && reference(rest, tail),
            (Some(_), []) => false,
        };
        here || (*star && !text.is_empty() && reference(tokens, &text[1..]))
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*?\\[\\]!./é-]{0,8}", text in "[abé./-]{0,8}") {
            let compiled = Pattern::compile(&pattern);
            let mut tokens: Vec<_> = compiled.steps().map(|(star, token)| (star, Some(token))).collect();
            tokens.push((compiled.stars.last() == Some(&true), None));
            let characters: Vec<char> = text.chars().collect();
            prop_assert_eq!(compiled.matches(&text), reference(&tokens, &characters));
        }

        #[test]
        fn text_matches_its_escape(text in "\\PC{0,20}") {
            prop_assert!(Pattern::compile(&Pattern::escape(&text)).matches(&text));
        }
    }
}
