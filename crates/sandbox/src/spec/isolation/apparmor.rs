//! `AppArmor` profiles.

use std::fmt;
use std::str::FromStr;

use crate::spec::InvalidSpec;

/// The name of an `AppArmor` profile, which the kernel of the engine's host must have loaded and
/// enforce.
///
/// Podman applies one only as root, and gVisor not at all. It is an error to launch a container
/// where the profile is not in force.
///
/// ```
/// use sandbox::Isolation;
///
/// let isolation = Isolation { apparmor: Some("my-agents".parse()?), ..Isolation::agent() };
/// # Ok::<(), sandbox::InvalidSpec>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppArmorProfile(String);

impl AppArmorProfile {
    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AppArmorProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AppArmorProfile {
    type Err = InvalidSpec;

    /// Refuses `unconfined`, which is not a profile, and names that the kernel interprets: those of
    /// child profiles, of several profiles and of other namespaces.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@/".contains(&byte);
        let is_name = (1..=255).contains(&text.len()) && text.bytes().all(is_plain) && !text.contains("//");
        if is_name && text != "unconfined" {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidSpec::new(
            "isolation.apparmor",
            format!(
                "`{}` is not the name of an AppArmor profile; write one that `aa-status` lists, of letters, digits and `._-+@/`",
                text.escape_debug()
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_other_than_one_profile_is_refused() {
        let long = "a".repeat(256);
        for (text, good) in [
            ("docker-default", true),
            ("/usr/bin/man", true),
            ("containers-default-0.62.2", true),
            ("", false),
            ("unconfined", false),
            ("a b", false),
            ("a//hat", false),
            ("a//&b", false),
            (":namespace:a", false),
            ("a\n", false),
            (&long, false),
        ] {
            assert_eq!(text.parse::<AppArmorProfile>().is_ok(), good, "{text:?}");
        }
    }
}
