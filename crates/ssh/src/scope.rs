//! The name that keys belong to. It is also the name of their folder, so it is validated before
//! anything is created.

use std::fmt;
use std::str::FromStr;

use crate::SshError;

/// The owner of keys: 1 to 64 characters of `A-Z a-z 0-9 . _ -`, the first a letter or digit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Box<str>);

impl Scope {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Scope {
    type Err = SshError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = text.bytes();
        let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let rest = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if first && rest && text.len() <= 64 {
            Ok(Self(text.into()))
        } else {
            Err(SshError::InvalidScope { name: text.chars().take(80).collect() })
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_that_is_a_path_or_an_option_is_refused() {
        for name in ["a", "My-Project_1.x", "0", &"x".repeat(64)] {
            assert_eq!(name.parse::<Scope>().unwrap().as_str(), name);
        }
        let long = "x".repeat(65);
        for name in ["", ".", "..", ".x", "-x", "_x", "a/b", "a b", "a\0", "a\n", "ä", "%name", &long] {
            assert!(name.parse::<Scope>().is_err(), "{name:?}");
        }
    }
}
