//! Whether any text of a given language can match a pattern.

use super::class::Token;
use super::compile::Pattern;
use std::collections::HashSet;
use std::hash::Hash;

/// A set of texts, as an automaton that reads them character by character.
pub(crate) trait Language {
    /// The state of the automaton.
    type State: Copy + Eq + Hash;

    fn start(&self) -> Self::State;

    /// The state after one more character, or `None` if no text of the language continues so.
    fn step(&self, state: Self::State, next: char) -> Option<Self::State>;

    /// Whether a text may end here.
    fn accepts(&self, state: Self::State) -> bool;
}

impl Pattern {
    /// Whether some text of `language` matches.
    pub(crate) fn reaches<L: Language>(&self, language: &L) -> bool {
        let alphabet = self.alphabet();
        let mut seen = HashSet::new();
        let mut open = vec![(0, language.start())];
        while let Some((position, state)) = open.pop() {
            if !seen.insert((position, state)) {
                continue;
            }
            let token = self.tokens.get(position);
            if token.is_none() && language.accepts(state) {
                return true;
            }
            let star = self.stars.get(position) == Some(&true);
            if let (Some(Token::Literal(literal)), false) = (token, star) {
                open.extend(language.step(state, *literal).map(|next| (position + 1, next)));
                continue;
            }
            for character in &alphabet {
                let Some(next) = language.step(state, *character) else {
                    continue;
                };
                if star {
                    open.push((position, next));
                }
                if token.is_some_and(|token| token.matches(*character)) {
                    open.push((position + 1, next));
                }
            }
        }
        false
    }

    /// Printable ASCII, the characters of the pattern with their neighbours, and a few others that
    /// represent the rest: no language here distinguishes those.
    fn alphabet(&self) -> HashSet<char> {
        let mut alphabet: HashSet<char> = (' '..='~').chain(['é', '語', '\u{10fffd}']).collect();
        for token in &self.tokens {
            match token {
                Token::Literal(literal) => {
                    alphabet.insert(*literal);
                }
                Token::Any => {}
                Token::Class(class) => alphabet.extend(class.edges().flat_map(with_neighbours)),
            }
        }
        alphabet
    }
}

fn with_neighbours(character: char) -> impl Iterator<Item = char> {
    let code = u32::from(character);
    [code.checked_sub(1), Some(code), code.checked_add(1)].into_iter().flatten().filter_map(char::from_u32)
}
