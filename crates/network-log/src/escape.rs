//! Makes text from inside the container harmless.
//!
//! Four forms, for different places of a line. All give printable ASCII only, and a backslash in
//! the result always begins an escape, so that two different inputs never look the same.

use std::fmt::Write as _;

/// Free text for the log, in printable ASCII: spaces stay; square brackets are escaped, so that it
/// cannot forge an annotation. A backslash always begins an escape, so that different texts never
/// look the same.
#[must_use]
pub fn text(raw: &str) -> String {
    escape(raw, |c| c == ' ' || (c.is_ascii_graphic() && !matches!(c, '[' | ']')))
}

/// One word: neither spaces nor square brackets. Nothing is shown as `-`.
pub(crate) fn word(raw: &str) -> String {
    match raw {
        "" => "-".to_owned(),
        "-" => "\\x2d".to_owned(),
        _ => escape(raw, |c| c.is_ascii_graphic() && !matches!(c, '[' | ']')),
    }
}

/// Path and query inside a URL: no spaces. Brackets, which are common there, stay: an annotation
/// begins with a space.
pub(crate) fn target(raw: &str) -> String {
    escape(raw, |c| c.is_ascii_graphic())
}

/// A host inside a URL: a character that could end the host, such as `/` or `@`, is escaped.
pub(crate) fn host(raw: &str) -> String {
    if raw.is_empty() {
        return "-".to_owned();
    }
    escape(raw, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']'))
}

fn escape(raw: &str, keep: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(raw.len());
    for c in raw.chars() {
        if c != '\\' && keep(c) {
            escaped.push(c);
        } else if c.is_ascii() {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\x{:02x}", u32::from(c));
        } else {
            let _ = write!(escaped, "\\u{{{:x}}}", u32::from(c));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forging_characters_are_escaped() {
        for (raw, as_text, as_word, as_target, as_host) in [
            ("evil.com", "evil.com", "evil.com", "evil.com", "evil.com"),
            ("a\nb", r"a\x0ab", r"a\x0ab", r"a\x0ab", r"a\x0ab"),
            ("\u{1b}[2J", r"\x1b\x5b2J", r"\x1b\x5b2J", r"\x1b[2J", r"\x1b[2J"),
            ("a b", "a b", r"a\x20b", r"a\x20b", r"a\x20b"),
            ("[m: 1]", r"\x5bm: 1\x5d", r"\x5bm:\x201\x5d", r"[m:\x201]", r"[m:\x201]"),
            ("a/b@c", "a/b@c", "a/b@c", "a/b@c", r"a\x2fb\x40c"),
            (r"\n", r"\x5cn", r"\x5cn", r"\x5cn", r"\x5cn"),
            ("é\u{202e}", r"\u{e9}\u{202e}", r"\u{e9}\u{202e}", r"\u{e9}\u{202e}", r"\u{e9}\u{202e}"),
            ("\u{7f}\u{2028}", r"\x7f\u{2028}", r"\x7f\u{2028}", r"\x7f\u{2028}", r"\x7f\u{2028}"),
            ("-", "-", r"\x2d", "-", "-"),
        ] {
            let escaped = (&*text(raw), &*word(raw), &*target(raw), &*host(raw));
            assert_eq!(escaped, (as_text, as_word, as_target, as_host), "{raw:?}");
        }
        assert_eq!((&*word(""), &*host("")), ("-", "-"));
    }
}
