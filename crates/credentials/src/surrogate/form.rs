//! The form of a secret, which its surrogate keeps.

use rand::{CryptoRng, RngExt};

/// Prefixes by which clients and servers recognize a token. If one begins with another, the longer
/// comes first.
const PREFIXES: [&str; 17] = [
    "github_pat_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghr_",
    "ghu_",
    "sk-ant-api03-",
    "sk-ant-oat01-",
    "sk-ant-ort01-",
    "sk-ant-",
    "sk-proj-",
    "sk-",
    "xoxb-",
    "xoxp-",
    "glpat-",
    "AKIA",
    "ASIA",
];

/// Minimum number of random characters of a token's surrogate.
const RANDOM_MINIMUM: usize = 16;

/// The length of every session token's surrogate, in characters.
const SESSION_TOKEN_LENGTH: usize = 512;

/// The kind of a secret, which determines the length of its surrogate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A token or password: as long as the real one, or longer if that would be too easy to guess.
    Token,
    /// An access key id or secret access key: clients check the length, so it is kept.
    Key,
    /// A session token: the length of real ones reveals their purpose, so surrogates have a fixed
    /// length.
    SessionToken,
}

impl Form {
    /// A random text of the form of `value`. It may be equal to it by chance.
    pub(crate) fn draw(self, value: &str, rng: &mut impl CryptoRng) -> String {
        if self == Self::SessionToken {
            return random(SESSION_TOKEN_LENGTH, rng);
        }
        let (prefix, rest) = split_prefix(value);
        let hexadecimal = hexadecimal(rest);
        let mut surrogate = String::with_capacity(value.len() + RANDOM_MINIMUM);
        surrogate.push_str(prefix);
        let mut random = 0;
        for character in rest.chars() {
            let class = Class::of(character).map(|class| hexadecimal.unwrap_or(class));
            random += usize::from(class.is_some());
            surrogate.push(class.map_or(character, |class| class.draw(rng)));
        }
        if self == Self::Token {
            surrogate.extend((random..RANDOM_MINIMUM).map(|_| Class::Any.draw(rng)));
        }
        surrogate
    }
}

/// This number of random letters and digits.
pub(super) fn random(length: usize, rng: &mut impl CryptoRng) -> String {
    (0..length).map(|_| Class::Any.draw(rng)).collect()
}

/// The known prefix of a token, possibly empty, and the rest.
fn split_prefix(value: &str) -> (&str, &str) {
    let length = PREFIXES.iter().find(|prefix| value.starts_with(**prefix)).map_or(0, |prefix| prefix.len());
    value.split_at(length)
}

/// The class of every letter and digit, if all letters are hexadecimal digits of one case. Digits
/// alone are just digits.
fn hexadecimal(rest: &str) -> Option<Class> {
    let all = |range: std::ops::RangeInclusive<char>| {
        let mut letters = rest.chars().filter(char::is_ascii_alphabetic).peekable();
        letters.peek().is_some() && letters.all(|letter| range.contains(&letter))
    };
    if all('a'..='f') {
        Some(Class::HexLower)
    } else if all('A'..='F') {
        Some(Class::HexUpper)
    } else {
        None
    }
}

/// The alphabet of a random character, with uniform probability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Upper,
    Lower,
    Digit,
    HexLower,
    HexUpper,
    /// Letters of both cases and digits.
    Any,
}

impl Class {
    /// The class that replaces a character; `None` for ASCII characters except letters and digits,
    /// which are kept.
    fn of(character: char) -> Option<Self> {
        match character {
            _ if !character.is_ascii() => Some(Self::Any),
            'A'..='Z' => Some(Self::Upper),
            'a'..='z' => Some(Self::Lower),
            '0'..='9' => Some(Self::Digit),
            _ => None,
        }
    }

    fn draw(self, rng: &mut impl CryptoRng) -> char {
        let byte = match self {
            Self::Upper => b'A' + rng.random_range(0..26),
            Self::Lower => b'a' + rng.random_range(0..26),
            Self::Digit => b'0' + rng.random_range(0..10),
            Self::HexLower => digit_or(b'a', rng.random_range(0..16)),
            Self::HexUpper => digit_or(b'A', rng.random_range(0..16)),
            Self::Any => match rng.random_range(0..62_u8) {
                upper @ 36.. => b'A' + (upper - 36),
                other => digit_or(b'a', other),
            },
        };
        char::from(byte)
    }
}

/// `0` to `9`, then letters beginning with `first`.
fn digit_or(first: u8, number: u8) -> u8 {
    match number {
        0..=9 => b'0' + number,
        letter => first + (letter - 10),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn rng() -> StdRng {
        StdRng::seed_from_u64(1)
    }

    #[test]
    fn longer_prefix_precedes_a_shorter_one() {
        for (index, prefix) in PREFIXES.iter().enumerate() {
            let shadow = PREFIXES[..index].iter().find(|earlier| prefix.starts_with(**earlier));
            assert_eq!(shadow, None, "{prefix}");
        }
    }

    #[test]
    fn longest_known_prefix_is_kept() {
        for (value, prefix) in [
            ("github_pat_11AAA_bbb", "github_pat_"),
            ("ghp_abc", "ghp_"),
            ("ghu_abc", "ghu_"),
            ("sk-ant-api03-abc", "sk-ant-api03-"),
            ("sk-ant-oat01-abc", "sk-ant-oat01-"),
            ("sk-ant-ort01-abc", "sk-ant-ort01-"),
            ("sk-ant-admin-abc", "sk-ant-"),
            ("sk-proj-abc", "sk-proj-"),
            ("sk-abc", "sk-"),
            ("AKIAIOSFODNN7EXAMPLE", "AKIA"),
            ("xghp_abc", ""),
            ("GHP_abc", ""),
            ("", ""),
        ] {
            assert_eq!(split_prefix(value).0, prefix, "{value}");
        }
    }

    #[test]
    fn class_yields_exactly_its_characters() {
        for (class, alphabet) in [
            (Class::Upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
            (Class::Lower, "abcdefghijklmnopqrstuvwxyz"),
            (Class::Digit, "0123456789"),
            (Class::HexLower, "0123456789abcdef"),
            (Class::HexUpper, "0123456789ABCDEF"),
            (Class::Any, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        ] {
            let mut rng = rng();
            let drawn: BTreeSet<char> = (0..5000).map(|_| class.draw(&mut rng)).collect();
            assert_eq!(drawn, alphabet.chars().collect(), "{class:?}");
        }
    }

    #[test]
    fn hexadecimal_is_letters_of_one_case_up_to_f() {
        for (rest, expected) in [
            ("0af9", Some(Class::HexLower)),
            ("0AF9", Some(Class::HexUpper)),
            ("dead-beef.0", Some(Class::HexLower)),
            ("0aF9", None),
            ("0ag9", None),
            ("0123", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(hexadecimal(rest), expected, "{rest}");
        }
        let value = "0123456789abcdef-0123456789abcdef";
        let surrogate = Form::Token.draw(value, &mut rng());
        assert!(surrogate.chars().all(|c| "0123456789abcdef-".contains(c)));
        let kept_letters = value.chars().zip(surrogate.chars());
        let crossed = kept_letters.filter(|(old, new)| old.is_ascii_digit() != new.is_ascii_digit()).count();
        assert!(crossed > 0, "digits and letters are one class");
    }

    #[test]
    fn short_token_grows_and_key_does_not() {
        for (value, expected) in [
            ("", 16),
            ("a", 16),
            ("----", 20),
            ("ghp_", 20),
            ("ghp_ab.cd", 21),
            ("abcdefghijklmno", 16),
            ("abcdefghijklmnop", 16),
            ("abcdefghijklmnopq", 17),
        ] {
            assert_eq!(Form::Token.draw(value, &mut rng()).chars().count(), expected, "{value}");
            let key = Form::Key.draw(value, &mut rng());
            assert_eq!(key.chars().count(), value.chars().count(), "{value}");
        }
    }

    #[test]
    fn session_tokens_are_512_letters_and_digits() {
        for value in ["x", "IQoJb3JpZ2luX2VjE==", &"a/".repeat(2000)] {
            let surrogate = Form::SessionToken.draw(value, &mut rng());
            assert_eq!(surrogate.len(), 512);
            assert!(surrogate.chars().all(|c| c.is_ascii_alphanumeric()));
        }
    }

    /// Whether `new` may replace `old`.
    fn same_class(old: char, new: char, hexadecimal: Option<Class>) -> bool {
        match (Class::of(old), hexadecimal) {
            (None, _) => old == new,
            _ if !old.is_ascii() && hexadecimal.is_none() => new.is_ascii_alphanumeric(),
            (Some(_), Some(Class::HexLower)) => matches!(new, '0'..='9' | 'a'..='f'),
            (Some(_), Some(_)) => matches!(new, '0'..='9' | 'A'..='F'),
            (class, None) => Class::of(new) == class,
        }
    }

    fn values() -> impl Strategy<Value = String> {
        let prefixes = prop::sample::select(vec!["", "", "ghp_", "sk-ant-api03-", "sk-", "glpat-", "AKIA"]);
        let rest = prop_oneof![
            "[A-Za-z0-9]{0,60}",
            "[0-9a-f.-]{0,60}",
            "[0-9A-F]{0,60}",
            "[ -~é你]{0,60}",
            "\\PC{0,40}",
        ];
        (prefixes, rest).prop_map(|(prefix, rest)| format!("{prefix}{rest}"))
    }

    proptest! {
        #[test]
        fn surrogate_keeps_the_form(value in values(), seed: u64) {
            let mut rng = StdRng::seed_from_u64(seed);
            let (prefix, rest) = split_prefix(&value);
            let random = rest.chars().filter(|c| c.is_ascii_alphanumeric() || !c.is_ascii()).count();
            for form in [Form::Token, Form::Key] {
                let surrogate = form.draw(&value, &mut rng);
                let tail = surrogate.strip_prefix(prefix);
                prop_assert!(tail.is_some(), "prefix lost");
                let tail = tail.unwrap_or_default();
                for (old, new) in rest.chars().zip(tail.chars()) {
                    prop_assert!(same_class(old, new, hexadecimal(rest)), "{old} became {new}");
                }
                let grown = if form == Form::Token { RANDOM_MINIMUM.saturating_sub(random) } else { 0 };
                prop_assert_eq!(surrogate.chars().count(), value.chars().count() + grown);
                let appended = tail.chars().skip(rest.chars().count());
                prop_assert!(appended.clone().all(|c| c.is_ascii_alphanumeric()));
            }
        }
    }
}
