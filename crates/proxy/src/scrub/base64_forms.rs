//! Forms of a value within base64 text.
//!
//! Three bytes become four characters, so a value looks different at each of three offsets, and its
//! first and last characters may contain bits of a neighbour. The search is for the stretch that
//! depends on the value alone; where the value ends the text, also for its last character and the
//! padding.

use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::text_forms::{Hex, percent};

/// With and without padding.
const ALPHABETS: [(&GeneralPurpose, &GeneralPurpose); 2] =
    [(&STANDARD, &STANDARD_NO_PAD), (&URL_SAFE, &URL_SAFE_NO_PAD)];

/// Stretches of base64 text that encode `real`, and their replacements: the same stretch of
/// `surrogate`, or asterisks where the lengths of the values rule that out. The same pair may occur
/// more than once.
pub(super) fn base64_forms(real: &str, surrogate: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (padded, bare) in ALPHABETS {
        for shift in 0..3 {
            let same_place = real.len() == surrogate.len();
            let within = same_place.then(|| within(bare, surrogate, shift));
            pairs.extend(written(&self::within(bare, real, shift), within.as_deref()));
            let ends_open = !(shift + real.len()).is_multiple_of(3);
            if ends_open {
                pairs.extend(written(&at_end(padded, real, shift), Some(&at_end(padded, surrogate, shift))));
            }
        }
    }
    pairs
}

/// Unchanged, in JSON that escapes `/`, and in a URL.
fn written(real: &str, surrogate: Option<&str>) -> Vec<(String, String)> {
    let ways: [&dyn Fn(&str) -> String; 4] = [
        &str::to_owned,
        &|text| text.replace('/', "\\/"),
        &|text| percent(text, "-_", "+", Hex::Upper),
        &|text| percent(text, "-_", "+", Hex::Lower),
    ];
    let pair = |way: &dyn Fn(&str) -> String| {
        let real = way(real);
        let surrogate = surrogate.map_or_else(|| "*".repeat(real.len()), way);
        (real, surrogate)
    };
    ways.into_iter().map(pair).collect()
}

/// The characters that depend on `value` alone when `shift` bytes precede it.
fn within(bare: &GeneralPurpose, value: &str, shift: usize) -> String {
    let stable = 8 * (shift + value.len()) / 6 - start(shift);
    encoded(bare, value, shift).chars().skip(start(shift)).take(stable).collect()
}

/// The same, when the text ends with `value`.
fn at_end(padded: &GeneralPurpose, value: &str, shift: usize) -> String {
    encoded(padded, value, shift).chars().skip(start(shift)).collect()
}

fn start(shift: usize) -> usize {
    (8 * shift).div_ceil(6)
}

fn encoded(engine: &GeneralPurpose, value: &str, shift: usize) -> String {
    let mut bytes = vec![0; shift];
    bytes.extend_from_slice(value.as_bytes());
    engine.encode(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const SURROGATE: &str = "kQzmtBCplWABD/J4XYZQR+cLmPqwTUVNOPQRSTUV";

    #[test]
    fn value_at_the_end_becomes_exactly_its_surrogate() {
        for before in ["", "u", "us", "user:", "user :"] {
            let mut text = STANDARD.encode(format!("{before}{REAL}"));
            let mut pairs = base64_forms(REAL, SURROGATE);
            pairs.sort_by_key(|(real, _)| std::cmp::Reverse(real.len()));
            let (real, surrogate) = pairs.iter().find(|(real, _)| text.contains(real)).unwrap();
            text = text.replace(real, surrogate);
            assert!(!text.contains('*'));
            let decoded = STANDARD.decode(text).unwrap();
            assert!(String::from_utf8_lossy(&decoded).ends_with(&SURROGATE[1..]), "{before}");
        }
    }

    #[test]
    fn value_of_another_length_is_masked_in_the_middle() {
        for (real, surrogate) in base64_forms("a value of its own", "another") {
            assert!(surrogate.len() == real.len() || !surrogate.contains('*'));
        }
    }

    proptest! {
        #[test]
        fn value_is_found_at_every_offset(before in ".{0,7}", after in ".{0,7}", real in "[!-~]{8,40}", url in any::<bool>()) {
            let text = format!("{before}{real}{after}");
            let text = if url { URL_SAFE_NO_PAD.encode(text) } else { STANDARD.encode(text) };
            let forms = base64_forms(&real, &real);
            prop_assert!(forms.iter().any(|(form, _)| text.contains(form)));
        }
    }
}
