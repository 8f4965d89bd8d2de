//! Names of refs.

use std::fmt::Write as _;

/// Maximum number of a name's characters in a message.
const SHOWN: usize = 200;

/// Whether git accepts `name` as a ref that a push updates.
pub(super) fn is_valid(name: &[u8]) -> bool {
    let component = |part: &[u8]| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock");
    let pair = |pair: &[u8]| matches!(pair, b".." | b"@{");
    name.starts_with(b"refs/")
        && !name.ends_with(b".")
        && !name.iter().any(|byte| is_forbidden(*byte))
        && !name.windows(2).any(pair)
        && name.split(|byte| *byte == b'/').all(component)
}

/// Bytes that no name contains.
pub(crate) fn is_forbidden(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f || b"~^:?*[\\".contains(&byte)
}

/// The form of an arbitrary name in messages.
pub(super) fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if plain(character) {
                text.push(character);
            } else {
                text.extend(character.escape_default());
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Whether a character is shown unescaped.
fn plain(character: char) -> bool {
    character.is_ascii_graphic() || (!character.is_ascii() && character.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As decided by `git check-ref-format`.
    #[test]
    fn name_is_valid_if_git_accepts_it() {
        for name in
            ["refs/heads/main", "refs/tags/v1.0", "refs/heads/a@b", "refs/heads/@", "refs/x", "refs/heads/-x"]
        {
            assert!(is_valid(name.as_bytes()), "{name}");
        }
        assert!(is_valid("refs/heads/ü".as_bytes()) && is_valid(b"refs/heads/\xff"));
        for name in [
            "",
            "refs",
            "refs/",
            "main",
            "HEAD",
            "/refs/heads/x",
            "refs//x",
            "refs/heads/",
            "refs/.x",
            "refs/heads/.x",
            "refs/heads/x.lock",
            "refs/x.lock/y",
            "refs/heads/x.",
            "refs/a..b",
            "refs/a@{b",
            "refs/a b",
            "refs/a\tb",
            "refs/a\nb",
            "refs/a\0b",
            "refs/a\x7fb",
            "refs/a~b",
            "refs/a^b",
            "refs/a:b",
            "refs/a?b",
            "refs/a*b",
            "refs/a[b",
            "refs/a\\b",
        ] {
            assert!(!is_valid(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn deceptive_characters_of_a_name_are_escaped() {
        for (name, expected) in [
            (b"refs/heads/main".as_slice(), "refs/heads/main"),
            ("refs/ü".as_bytes(), "refs/ü"),
            (b"a\nb\x1b[2J", "a\\nb\\u{1b}[2J"),
            (b"a\xffb", "a\\xffb"),
            ("a\u{202e}b".as_bytes(), "a\\u{202e}b"),
        ] {
            assert_eq!(shown(name), expected);
        }
        assert_eq!(shown(&[b'x'; 300]).chars().count(), SHOWN + 1);
    }
}
