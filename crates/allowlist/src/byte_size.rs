//! Human-readable sizes in bytes.

use std::fmt;

use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// The number of bytes that `text` means: `512m`, `4g`, `1.5 GiB`, `1048576`. Units are powers of
/// 1024, in either case, with or without `b` or `ib`. `None` if it is not a size, or exceeds 64
/// bits.
///
/// ```
/// assert_eq!(allowlist::byte_size("1.5k"), Some(1536));
/// assert_eq!(allowlist::byte_size("much"), None);
/// ```
#[must_use]
pub fn byte_size(text: &str) -> Option<u64> {
    // Integer arithmetic only: floating point would lose digits.
    let lower = text.to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        "p" | "pb" | "pib" => 50,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = (fraction.parse::<u128>().ok()? << shift) / scale;
    whole.checked_add(u64::try_from(part).ok()?)
}

/// For serde: a text with a unit, or a whole number of bytes.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct SizeVisitor;

    impl Visitor<'_> for SizeVisitor {
        type Value = Option<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size such as 512m or 4g")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Option<u64>, E> {
            let bytes = byte_size(text).ok_or_else(|| E::invalid_value(Unexpected::Other(text), &self))?;
            Ok(Some(bytes))
        }

        fn visit_u64<E: Error>(self, bytes: u64) -> Result<Option<u64>, E> {
            Ok(Some(bytes))
        }

        fn visit_i64<E: Error>(self, bytes: i64) -> Result<Option<u64>, E> {
            self.visit_str(&bytes.to_string())
        }
    }

    deserializer.deserialize_any(SizeVisitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_readable_sizes_are_parsed() {
        for (text, expected) in [
            ("512m", Some(512 << 20)),
            ("4G", Some(4 << 30)),
            ("4gb", Some(4 << 30)),
            ("4 GiB", Some(4 << 30)),
            ("1.5g", Some(1536 << 20)),
            ("0.1k", Some(102)),
            ("1048576", Some(1 << 20)),
            ("0", Some(0)),
            ("7b", Some(7)),
            ("2p", Some(2 << 50)),
            ("", None),
            ("m", None),
            ("-1m", None),
            ("1.m", None),
            (".5m", None),
            ("1.2.3m", None),
            ("4  g", None),
            ("4x", None),
            ("4mi", None),
            ("99999999999p", None),
        ] {
            assert_eq!(byte_size(text), expected, "{text:?}");
        }
    }
}
