//! Amounts in the notation of users.

use std::fmt;
use std::str::FromStr;

use crate::spec::InvalidSpec;

/// Bytes of memory or of a disk: `512m`, `4g`, `1.5 GiB`, `1048576`. Units are powers of 1024, in
/// either case, with or without `b` or `ib`.
///
/// ```
/// let memory: sandbox::ByteSize = "1.5g".parse()?;
/// assert_eq!(memory, sandbox::ByteSize::mib(1536));
/// # Ok::<(), sandbox::InvalidSpec>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

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
    type Err = InvalidSpec;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        allowlist::byte_size(text).map(Self).ok_or_else(|| {
            InvalidSpec::new(
                "size",
                format!("`{}` is not a size; write one such as 512m or 4g", text.escape_debug()),
            )
        })
    }
}

/// Processors in fractions of one: `2`, `0.5`. From 0.01 to 1024.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Cpus(f64);

impl Cpus {
    /// One whole processor.
    pub const ONE: Self = Self(1.0);

    /// A number of processors, which need not be whole.
    ///
    /// # Errors
    ///
    /// When it is not between 0.01 and 1024.
    pub fn new(count: f64) -> Result<Self, InvalidSpec> {
        if (0.01..=1024.0).contains(&count) {
            Ok(Self(count))
        } else {
            Err(InvalidSpec::new("cpus", "must be between 0.01 and 1024"))
        }
    }

    /// Processors.
    #[must_use]
    pub fn count(self) -> f64 {
        self.0
    }

    /// Billionths of a processor, the engine's unit.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 1024e9, far below 2^53")]
    pub fn nano(self) -> i64 {
        (self.0 * 1e9).round() as i64
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cpus {
    type Err = InvalidSpec;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Not `inf`, `nan`, `1e3` or `+1`, which Rust also parses.
        let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let count = text.parse().ok().filter(|_| plain);
        count.and_then(|count| Self::new(count).ok()).ok_or_else(|| {
            InvalidSpec::new(
                "cpus",
                format!(
                    "`{}` is not a number of processors; write one from 0.01 to 1024, such as 1.5",
                    text.escape_debug()
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_displayed_as_podman_parses_it() {
        let size: ByteSize = "10g".parse().unwrap();
        assert_eq!(size.to_string(), "10737418240b");
        assert_eq!("10 x".parse::<ByteSize>().unwrap_err().field(), "size");
    }

    #[test]
    fn processors_out_of_bounds_are_refused() {
        for (count, good) in
            [(0.01, true), (1024.0, true), (0.0, false), (-1.0, false), (1025.0, false), (f64::NAN, false)]
        {
            assert_eq!(Cpus::new(count).is_ok(), good, "{count}");
        }
    }

    #[test]
    fn processors_are_parsed_as_decimal_numbers() {
        for (text, good) in [
            ("2", true),
            ("0.5", true),
            ("2.0", true),
            ("0", false),
            ("", false),
            ("inf", false),
            ("nan", false),
            ("1e2", false),
            ("+1", false),
            ("-1", false),
            ("1025", false),
        ] {
            assert_eq!(text.parse::<Cpus>().is_ok(), good, "{text:?}");
        }
    }
}
