//! Forms of a value as the hexadecimal digits of its bytes, in lower or upper case.
//!
//! S3 uses this form when a signature is wrong: its answer contains every byte of the request as it
//! should have been signed, as two digits each, separated by spaces. A value in the query of the
//! request is percent-encoded first, as AWS requires.

use std::fmt::Write;

use super::text_forms::{Hex, percent};

/// How many times as long as a value these forms are at most: each byte of it may be encoded as
/// three, each of which becomes two digits and a space.
pub(super) const SPACED_EXPANSION: usize = 9;

/// `real` and `surrogate` as digits without separators; the same pair may occur twice.
pub(super) fn bare_hex_forms(real: &str, surrogate: &str) -> Vec<(String, String)> {
    forms(real, surrogate, "")
}

/// The same with a space after each byte but the last.
pub(super) fn spaced_hex_forms(real: &str, surrogate: &str) -> Vec<(String, String)> {
    forms(real, surrogate, " ")
}

fn forms(real: &str, surrogate: &str, between: &str) -> Vec<(String, String)> {
    let plain = str::to_owned;
    let in_query = |value: &str| percent(value, "-_.~", "%20", Hex::Upper);
    let ways: [&dyn Fn(&str) -> String; 2] = [&plain, &in_query];
    ways.into_iter()
        .map(|way| (hex(&way(real), between), hex(&way(surrogate), between)))
        .flat_map(|(real, surrogate)| {
            let upper = (real.to_ascii_uppercase(), surrogate.to_ascii_uppercase());
            [(real, surrogate), upper]
        })
        .collect()
}

fn hex(value: &str, between: &str) -> String {
    let mut text = String::with_capacity((2 + between.len()) * value.len());
    for byte in value.bytes() {
        if !text.is_empty() {
            text.push_str(between);
        }
        let written = write!(text, "{byte:02x}");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_two_digits_each() {
        let pair = |real: &str, surrogate: &str| (real.to_owned(), surrogate.to_owned());
        assert_eq!(
            spaced_hex_forms("\tA/é", "b+"),
            [
                pair("09 41 2f c3 a9", "62 2b"),
                pair("09 41 2F C3 A9", "62 2B"),
                pair("25 30 39 41 25 32 46 25 43 33 25 41 39", "62 25 32 42"),
                pair("25 30 39 41 25 32 46 25 43 33 25 41 39", "62 25 32 42"),
            ]
        );
        assert_eq!(
            bare_hex_forms("A/", "b"),
            [pair("412f", "62"), pair("412F", "62"), pair("41253246", "62"), pair("41253246", "62")]
        );
    }

    #[test]
    fn forms_stay_within_the_documented_expansion() {
        for value in ["a", "////", "\u{1}é💥 "] {
            for (form, _) in spaced_hex_forms(value, "") {
                assert!(form.len() < SPACED_EXPANSION * value.len(), "{form}");
            }
        }
    }
}
