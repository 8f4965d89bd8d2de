//! The name of a run, as part of the names of refs.

use std::fmt;
use std::str::FromStr;

/// The name under which a run's refs are kept: 1 to 100 letters, digits, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunName(Box<str>);

/// The text is not a valid name of a run.
#[derive(Debug, thiserror::Error)]
#[error("`{}` is not a valid name of a run: it takes 1 to 100 letters, digits, `-` and `_`, and is not `backup`", .0.escape_debug())]
pub struct InvalidRunName(String);

impl FromStr for RunName {
    type Err = InvalidRunName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_good = (1..=100).contains(&text.len())
            && text.bytes().all(is_plain)
            && !text.starts_with('-')
            // Values that refs lost are kept under this name.
            && text != "backup";
        if is_good { Ok(Self(text.into())) } else { Err(InvalidRunName(text.to_owned())) }
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_leads_elsewhere_is_refused() {
        for (text, expected) in [
            ("sandbox-cli-7f3a", true),
            ("a_B-9", true),
            ("", false),
            ("backup", false),
            ("-x", false),
            ("a/b", false),
            ("a.lock", false),
            ("a..b", false),
        ] {
            assert_eq!(text.parse::<RunName>().is_ok(), expected, "{text:?}");
        }
        assert!("x".repeat(101).parse::<RunName>().is_err());
    }
}
