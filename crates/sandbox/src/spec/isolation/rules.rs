//! Rules for texts that reach the engine as parts of longer texts.

use std::path::{Component, Path};

/// An absolute path below the root, without `..`, and without the characters that separate paths
/// and options.
pub(super) fn is_plain_path(text: &str) -> bool {
    let path = Path::new(text);
    path.is_absolute()
        && path != Path::new("/")
        && !text.contains(|c: char| c.is_control() || c == ':' || c == ',')
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// A host name as in RFC 1123, of at most `longest` bytes. Podman itself accepts anything, even two
/// lines.
pub(super) fn is_host_name(text: &str, longest: usize) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= longest && text.split('.').all(is_label)
}

/// A user or group: a name or a number.
pub(super) fn is_account(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_names_and_accounts_are_accepted() {
        for (text, good) in [
            ("/tmp", true),
            ("/a b/c", true),
            ("/", false),
            ("tmp", false),
            ("/a/../b", false),
            ("/a:b", false),
            ("/a,size=1g", false),
            ("/a\nb", false),
        ] {
            assert_eq!(is_plain_path(text), good, "{text:?}");
        }
        for (text, good) in [
            ("sandbox", true),
            ("a.b-c.1", true),
            ("", false),
            ("a..b", false),
            ("-a", false),
            ("a b", false),
            ("a\n127.0.0.1 bank.example", false),
        ] {
            assert_eq!(is_host_name(text, 64), good, "{text:?}");
        }
        for (text, good) in [("node", true), ("1000", true), ("", false), ("a b", false), ("-x", false)] {
            assert_eq!(is_account(text), good, "{text:?}");
        }
    }
}
