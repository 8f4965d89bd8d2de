//! The name of a run.

use std::fmt;
use std::str::FromStr;

use crate::spec::InvalidSpec;

/// The name of a run: 1 to 63 letters, digits, `_`, `.` and `-`, starting with a letter or digit.
/// It is part of a container's name and of a path on the host.
///
/// ```
/// let name: sandbox::runs::RunName = "build-7".parse()?;
/// assert!("../7".parse::<sandbox::runs::RunName>().is_err());
/// # Ok::<(), sandbox::InvalidSpec>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunName(String);

impl RunName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunName {
    type Err = InvalidSpec;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let good = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= 63
            && text.chars().all(plain);
        if good {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidSpec::new(
            "container_name",
            format!(
                "`{}` is not the name of a run; write 1 to 63 letters, digits, `_`, `.` and `-`, starting with a letter or digit",
                text.escape_debug()
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_leaves_its_folder_or_is_an_option_is_refused() {
        for (text, good) in [
            ("build-7", true),
            ("A_b.c", true),
            ("7", true),
            ("", false),
            ("..", false),
            (".x", false),
            ("-x", false),
            ("a/b", false),
            ("a b", false),
            ("a\n", false),
            ("é", false),
            (&"x".repeat(63), true),
            (&"x".repeat(64), false),
        ] {
            assert_eq!(text.parse::<RunName>().is_ok(), good, "{text:?}");
        }
    }
}
