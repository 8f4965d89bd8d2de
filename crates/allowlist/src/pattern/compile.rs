//! Compiles pattern text to tokens and matching tables.

use super::class::Class;
use super::class::Token;
use super::matcher::Tables;

/// A compiled pattern; two are equal if their texts are.
#[derive(Clone)]
pub(crate) struct Pattern {
    source: Box<str>,
    pub(super) tokens: Vec<Token>,
    /// Whether a `*` precedes the token of that index; the last one is for a `*` at the end.
    pub(super) stars: Vec<bool>,
    tables: Tables,
}

impl Pattern {
    pub(crate) fn compile(source: &str) -> Self {
        let characters: Vec<char> = source.chars().collect();
        let mut tokens = Vec::new();
        let mut stars = vec![false];
        let mut rest = characters.as_slice();
        while let [first, tail @ ..] = rest {
            rest = tail;
            let token = match first {
                '*' => {
                    if let Some(star) = stars.last_mut() {
                        *star = true;
                    }
                    continue;
                }
                '?' => Token::Any,
                '[' => match Class::parse(tail) {
                    Some((class, length)) => {
                        rest = tail.get(length..).unwrap_or_default();
                        Token::Class(class)
                    }
                    None => Token::Literal('['),
                },
                other => Token::Literal(*other),
            };
            tokens.push(token);
            stars.push(false);
        }
        let exact = tokens.iter().all(|t| matches!(t, Token::Literal(_))) && !stars.contains(&true);
        let tables = Tables::new(&tokens, &stars, exact);
        Self { source: source.into(), tokens, stars, tables }
    }

    /// The text it was compiled from.
    pub(crate) fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether it has no wildcard and so matches only itself.
    pub(crate) fn is_exact(&self) -> bool {
        self.tables.is_empty()
    }

    /// Whether the whole of `text` matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        if self.is_exact() {
            return text == self.as_str();
        }
        self.tables.match_text(&self.tokens, self.is_open_ended(), text)
    }

    /// Whether the whole of `text` matches if every letter counts in upper and in lower case.
    pub(crate) fn matches_in_any_case(&self, text: &str) -> bool {
        if self.is_exact() {
            return text
                .chars()
                .flat_map(char::to_lowercase)
                .eq(self.as_str().chars().flat_map(char::to_lowercase));
        }
        self.tables.match_in_any_case(&self.tokens, self.is_open_ended(), text)
    }

    fn is_open_ended(&self) -> bool {
        self.stars.last() == Some(&true)
    }

    /// Whether `*` is its only kind of wildcard.
    pub(crate) fn has_only_stars(&self) -> bool {
        self.tokens.iter().all(|token| matches!(token, Token::Literal(_)))
    }

    /// Whether it has a class.
    pub(crate) fn has_class(&self) -> bool {
        self.tokens.iter().any(|token| matches!(token, Token::Class(_)))
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Tokens, each with whether a `*` precedes it.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (bool, &Token)> {
        self.stars.iter().copied().zip(&self.tokens)
    }

    /// The characters before the first wildcard.
    pub(crate) fn literal_prefix(&self) -> String {
        self.steps()
            .map_while(|(star, token)| match token {
                Token::Literal(literal) if !star => Some(*literal),
                _ => None,
            })
            .collect()
    }

    /// The characters after the last wildcard.
    pub(crate) fn literal_suffix(&self) -> String {
        let mut suffix: Vec<char> = Vec::new();
        // Each token with whether a `*` follows it.
        for (star, token) in self.stars.iter().skip(1).zip(&self.tokens).rev() {
            match token {
                Token::Literal(literal) if !star => suffix.push(*literal),
                _ => break,
            }
        }
        suffix.into_iter().rev().collect()
    }

    /// A pattern that matches exactly `text`.
    pub(crate) fn escape(text: &str) -> String {
        let mut escaped = String::with_capacity(text.len());
        for character in text.chars() {
            if matches!(character, '*' | '?' | '[') {
                escaped.extend(['[', character, ']']);
            } else {
                escaped.push(character);
            }
        }
        escaped
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Pattern({:?})", self.source)
    }
}
