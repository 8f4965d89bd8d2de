//! Forms of a value in a URL, a JSON string or an HTML page.
//!
//! Encoders differ in which characters they escape. Each line of a table here is one of the sets in
//! use; for a value of letters, digits, `-` and `_` nearly all of them give the same text, so few
//! needles remain.

use std::fmt::Write;

/// Characters other than letters and digits that URL encoders leave unescaped.
const URL_PLAIN: &[&str] = &[
    // All but the unreserved characters are escaped; then encodeURIComponent, encodeURI.
    "-_.~",
    "-_.!~*'()",
    "-_.!~*'();/?:@&=+$,#",
    // Forms: PHP, then browsers and Java.
    "-_.",
    "-_.*",
    // Python's quote; Go's path segments, then its paths.
    "-_.~/",
    "-_.~$&+:=@",
    "-_.~$&+,/:;=@",
    // Browsers: a query, a query of http and https, and a path.
    "!$%&'()*+,-./:;=?@[\\]^_`{|}~",
    "!$%&()*+,-./:;=?@[\\]^_`{|}~",
    "!$%&'()*+,-./:;=@[\\]_|~",
];

/// Characters that JSON encoders write as `\uXXXX` without need.
const JSON_ESCAPED: &[&str] = &[
    "",
    // Go and Django; PHP with all flags; Gson; Go's templates; .NET; Django's strings for scripts.
    "<>&",
    "<>&'\"",
    "<>&'=",
    "<>&'\"`+=",
    "<>&'\"`+",
    "<>&'\"`=-;\\",
];

/// Characters other than `&`, `<` and `>` that HTML encoders replace, and their entities.
const HTML_ESCAPED: &[&[(char, &str)]] = &[
    &[],
    &[('"', "&quot;")],
    &[('"', "&quot;"), ('\'', "&#39;")],
    &[('"', "&#34;"), ('\'', "&#39;")],
    &[('"', "&quot;"), ('\'', "&#x27;")],
    &[('"', "&quot;"), ('\'', "&#039;")],
    &[('"', "&quot;"), ('\'', "&apos;")],
    &[('"', "&quot;"), ('\'', "&#x27;"), ('/', "&#x2F;")],
    &[('"', "&quot;"), ('\'', "&#39;"), ('/', "&#x2F;")],
    &[('"', "&quot;"), ('\'', "&#39;"), ('/', "&#x2F;"), ('`', "&#x60;"), ('=', "&#x3D;")],
    &[('"', "&quot;"), ('\'', "&#x27;"), ('`', "&#x60;"), ('=', "&#x3D;")],
    &[('"', "&#34;"), ('\'', "&#39;"), ('+', "&#43;")],
    &[('"', "&quot;"), ('\'', "&#x27;"), ('+', "&#x2B;")],
    &[('"', "&quot;"), ('\'', "&#39;"), ('+', "&#x2B;")],
];

/// A way to write a value.
type Writing<'a> = &'a dyn Fn(&str) -> String;

/// `real` and `surrogate` in every form that is searched for, as pairs; the same pair may occur
/// often.
pub(super) fn text_forms(real: &str, surrogate: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    each_writing(&mut |write| pairs.push((write(real), write(surrogate))));
    pairs
}

fn each_writing(visit: &mut dyn FnMut(Writing<'_>)) {
    visit(&str::to_owned);
    for hex in [Hex::Upper, Hex::Lower] {
        for plain in URL_PLAIN {
            for space in ["%20", "+"] {
                visit(&|value| percent(value, plain, space, hex));
            }
        }
        // A URL within the query of another.
        visit(&|value| percent(&percent(value, "-_.~", "%20", hex), "-_.~", "%20", hex));
    }
    for escaped in JSON_ESCAPED {
        each_json(&mut |slash, foreign, hex| {
            visit(&|value| json(value, escaped, slash, foreign, hex));
        });
    }
    // A JSON document within a string of another.
    for slash in [Slash::Plain, Slash::Escaped] {
        let once = |value: &str| json(value, "", slash, Foreign::Plain, Hex::Lower);
        visit(&|value| once(&once(value)));
    }
    for escaped in HTML_ESCAPED {
        visit(&|value| html(value, escaped));
    }
}

fn each_json(visit: &mut dyn FnMut(Slash, Foreign, Hex)) {
    for slash in [Slash::Plain, Slash::Escaped] {
        for foreign in [Foreign::Plain, Foreign::Escaped] {
            for hex in [Hex::Upper, Hex::Lower] {
                visit(slash, foreign, hex);
            }
        }
    }
}

/// The case of hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hex {
    Upper,
    Lower,
}

/// Whether JSON writes `/` as `\/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slash {
    Plain,
    Escaped,
}

/// Whether JSON escapes characters outside ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Foreign {
    Plain,
    Escaped,
}

/// Percent-encoding of all but letters, digits and `plain`.
pub(super) fn percent(value: &str, plain: &str, space: &str, hex: Hex) -> String {
    let mut text = String::with_capacity(3 * value.len());
    for byte in value.bytes() {
        let character = char::from(byte);
        if character.is_ascii_alphanumeric() || plain.contains(character) {
            text.push(character);
        } else if byte == b' ' {
            text.push_str(space);
        } else {
            append(&mut text, hex, "%", u32::from(byte), 2);
        }
    }
    text
}

/// The inside of a JSON string.
fn json(value: &str, escaped: &str, slash: Slash, foreign: Foreign, hex: Hex) -> String {
    let mut text = String::with_capacity(6 * value.len());
    for character in value.chars() {
        let hidden = escaped.contains(character) || (foreign == Foreign::Escaped && !character.is_ascii());
        match character {
            _ if hidden => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    append(&mut text, hex, "\\u", u32::from(*unit), 4);
                }
            }
            '"' | '\\' => text.extend(['\\', character]),
            '/' if slash == Slash::Escaped => text.push_str("\\/"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\0'..='\x1f' => append(&mut text, hex, "\\u", u32::from(character), 4),
            _ => text.push(character),
        }
    }
    text
}

/// Text on an HTML page.
fn html(value: &str, escaped: &[(char, &str)]) -> String {
    let mut text = String::with_capacity(6 * value.len());
    for character in value.chars() {
        let entity = match character {
            '&' => Some("&amp;"),
            '<' => Some("&lt;"),
            '>' => Some("&gt;"),
            _ => escaped.iter().find(|(of, _)| *of == character).map(|(_, entity)| *entity),
        };
        match entity {
            Some(entity) => text.push_str(entity),
            None => text.push(character),
        }
    }
    text
}

fn append(text: &mut String, hex: Hex, mark: &str, number: u32, digits: usize) {
    text.push_str(mark);
    let written = match hex {
        Hex::Upper => write!(text, "{number:0digits$X}"),
        Hex::Lower => write!(text, "{number:0digits$x}"),
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn forms(value: &str) -> BTreeSet<String> {
        text_forms(value, value).into_iter().map(|(real, _)| real).collect()
    }

    #[test]
    fn plain_token_has_few_forms() {
        let found = forms("ghp_0123456789abcdefABCDEF");
        assert_eq!(found, BTreeSet::from(["ghp_0123456789abcdefABCDEF".to_owned()]));
        // Only Django escapes the hyphen.
        assert_eq!(forms("sk-ant-0123456789").len(), 3);
    }

    #[test]
    fn usual_encodings_of_a_value_are_among_its_forms() {
        let value = r#"wJa+r/X= &<"'>é💥"#;
        let found = forms(value);
        for expected in [
            // JavaScript: encodeURIComponent, encodeURI, URLSearchParams.
            "wJa%2Br%2FX%3D%20%26%3C%22'%3E%C3%A9%F0%9F%92%A5",
            "wJa+r/X=%20&%3C%22'%3E%C3%A9%F0%9F%92%A5",
            "wJa%2Br%2FX%3D+%26%3C%22%27%3E%C3%A9%F0%9F%92%A5",
            // Python: quote.
            "wJa%2Br/X%3D%20%26%3C%22%27%3E%C3%A9%F0%9F%92%A5",
            // The same in lower case, and a URL in a URL.
            "wJa%2br%2fX%3d%20%26%3c%22%27%3e%c3%a9%f0%9f%92%a5",
            "wJa%252Br%252FX%253D%2520%2526%253C%2522%2527%253E%25C3%25A9%25F0%259F%2592%25A5",
            // JSON: JavaScript, Python, PHP, Go, .NET.
            r#"wJa+r/X= &<\"'>é💥"#,
            r#"wJa+r/X= &<\"'>\u00e9\ud83d\udca5"#,
            r#"wJa+r\/X= &<\"'>\u00e9\ud83d\udca5"#,
            r#"wJa+r/X= \u0026\u003c\"'\u003eé💥"#,
            r"wJa\u002Br/X= \u0026\u003C\u0022\u0027\u003E\u00E9\uD83D\uDCA5",
            // JSON in JSON.
            r#"wJa+r/X= &<\\\"'>é💥"#,
            // Pages: Python, Go, mustache.
            "wJa+r/X= &amp;&lt;&quot;&#x27;&gt;é💥",
            "wJa&#43;r/X= &amp;&lt;&#34;&#39;&gt;é💥",
            "wJa+r&#x2F;X&#x3D; &amp;&lt;&quot;&#39;&gt;é💥",
        ] {
            assert!(found.contains(expected), "{expected}");
        }
        assert!(found.len() < 100, "{}", found.len());
    }

    #[test]
    fn both_values_of_a_pair_have_the_same_form() {
        let pairs = text_forms("a/b+c", "x/y+z");
        assert!(pairs.contains(&("a%2fb%2bc".to_owned(), "x%2fy%2bz".to_owned())));
        assert!(pairs.contains(&(r"a\/b+c".to_owned(), r"x\/y+z".to_owned())));
    }
}
