//! Makes text from another party safe to show on the screen.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

use crate::printer::sanitize_name;

/// Text from the network, at most `most` characters of it: only printable ASCII is unchanged, and a
/// backslash always begins an escape, so that no two texts look the same.
pub(super) fn from_network(raw: &str, most: usize) -> String {
    let mut shown = String::new();
    for (count, c) in raw.chars().enumerate() {
        if count == most {
            shown.push('…');
            break;
        }
        if c == ' ' || (c.is_ascii_graphic() && c != '\\') {
            shown.push(c);
        } else if c.is_ascii() {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\x{:02x}", u32::from(c));
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
    }
    shown
}

/// The name of a program or a folder: letters of any script are unchanged, characters without a
/// width of their own are escaped.
pub(super) fn name(raw: &str, most: usize) -> String {
    let mut shown = String::new();
    for c in sanitize_name(&raw.chars().take(most).collect::<String>()).chars() {
        if c.width().is_some_and(|width| width > 0) {
            shown.push(c);
        } else {
            shown.extend(c.escape_unicode());
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    #[test]
    fn hostile_text_is_escaped() {
        for (raw, shown) in [
            ("https://a.test/x?y=[1]", "https://a.test/x?y=[1]"),
            ("a\u{1b}[2Jb\r\n", r"a\x1b[2Jb\x0d\x0a"),
            (r"\x1b", r"\x5cx1b"),
            ("a\u{202e}b\u{200b}é", r"a\u{202e}b\u{200b}\u{e9}"),
            ("0123456789abc", "0123456789…"),
        ] {
            let most = if raw.starts_with('0') { 10 } else { 100 };
            assert_eq!(from_network(raw, most), shown);
        }
        assert_eq!(name("日本 make\u{1b}]0;x\u{7}e\u{301}", 100), r"日本 make\u{1b}]0;x\u{7}e\u{301}");
    }

    proptest! {
        #[test]
        fn any_text_becomes_printable(raw in any::<String>()) {
            let shown = from_network(&raw, 50);
            prop_assert!(shown.chars().all(|c| c == ' ' || c == '…' || c.is_ascii_graphic()), "{shown:?}");
            let shown = name(&raw, 50);
            prop_assert!(shown.chars().all(|c| c.width().is_some_and(|width| width > 0)), "{shown:?}");
            prop_assert!(shown.width() <= 50 * 12);
        }
    }
}
