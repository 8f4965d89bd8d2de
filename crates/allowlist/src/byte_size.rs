//! Numbers of bytes as people write them, read once.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A number of bytes: `512m`, `4g`, `1.5 GiB`, `1048576`. Units are powers of 1024, in either case, with or without `b` or
/// `ib`.
///
/// Counterpart of the text `RunSpec.memory` of terok-sandbox.
///
/// ```
/// let memory: allowlist::ByteSize = "1.5g".parse()?;
/// assert_eq!(memory, allowlist::ByteSize::mib(1536));
/// # Ok::<(), allowlist::InvalidByteSize>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ByteSize(u64);

/// A text that is no number of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size; write one such as 512m or 4g")]
pub struct InvalidByteSize(String);

impl ByteSize {
    /// A number of bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A number of KiB, of 1024 bytes each.
    #[must_use]
    pub const fn kib(number: u32) -> Self {
        Self((number as u64) << 10)
    }

    /// A number of MiB, of 1024 KiB each.
    #[must_use]
    pub const fn mib(number: u32) -> Self {
        Self((number as u64) << 20)
    }

    /// A number of GiB, of 1024 MiB each.
    #[must_use]
    pub const fn gib(number: u32) -> Self {
        Self((number as u64) << 30)
    }

    /// Bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    /// Bytes with `b`, as podman reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}b", self.0)
    }
}

impl FromStr for ByteSize {
    type Err = InvalidByteSize;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        bytes(text).map(Self).ok_or_else(|| InvalidByteSize(text.escape_debug().to_string()))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    /// A text with a unit, or a whole number of bytes.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;

        impl Visitor<'_> for SizeVisitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 512m or 4g")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(|_| E::invalid_value(Unexpected::Other(text), &self))
            }

            fn visit_u64<E: Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<ByteSize, E> {
                self.visit_str(&bytes.to_string())
            }
        }

        deserializer.deserialize_any(SizeVisitor)
    }
}

/// In whole numbers all the way: no digit is lost to a floating point.
fn bytes(text: &str) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
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
            assert_eq!(text.parse::<ByteSize>().ok().map(ByteSize::bytes), expected, "{text:?}");
        }
    }

    #[test]
    fn a_size_is_shown_as_podman_reads_it() {
        let size: ByteSize = "10g".parse().unwrap();
        assert_eq!(size.to_string(), "10737418240b");
        assert_eq!(
            "10 x".parse::<ByteSize>().unwrap_err().to_string(),
            "`10 x` is not a size; write one such as 512m or 4g"
        );
    }
}
