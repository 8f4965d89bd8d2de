//! Numbers of processors as people write them, read once.

use std::fmt;
use std::str::FromStr;

use crate::spec::InvalidSpec;

/// Processors in fractions of one: `2`, `0.5`. From 0.01 to 1024.
///
/// Counterpart of the text `RunSpec.cpus` of terok-sandbox.
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
    #[expect(clippy::cast_possible_truncation, reason = "at most 1024e9, far below 2^53")]
    pub(crate) fn nano(self) -> i64 {
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
        // Not `inf`, `nan`, `1e3` or `+1`, which numbers of Rust may be written as.
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
    fn numbers_of_processors_have_bounds() {
        for (count, good) in
            [(0.01, true), (1024.0, true), (0.0, false), (-1.0, false), (1025.0, false), (f64::NAN, false)]
        {
            assert_eq!(Cpus::new(count).is_ok(), good, "{count}");
        }
    }

    #[test]
    fn processors_as_people_write_them() {
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
