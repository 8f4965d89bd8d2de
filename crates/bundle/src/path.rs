//! Paths in a tree, and targets of links.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Names in a path; deeper trees are not packed.
const DEPTH: usize = 200;
/// Bytes of a path. Less than the kernel's 4,096, because a tree is unpacked below a folder.
const LENGTH: usize = 3_800;
/// Bytes of a name: the maximum of Linux's file systems.
const NAME: usize = 255;
/// Bytes of a link's target: the kernel's maximum.
const TARGET: usize = 4_095;

/// A path relative to the root of a tree: one to 200 names that are separated by `/`. No name is
/// empty, `.`, `..` or `.git` in any case. Ordered by its bytes, so a folder comes before its
/// contents. As text it is escaped, for messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct TreePath(String);

/// The target of a symbolic link: 1 to 4,095 bytes without a zero. It is never followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct LinkTarget(String);

impl TreePath {
    /// The path as one of the file system.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// The entry `name` of this folder, or the problem if no tree has such a path.
    pub(crate) fn child(&self, name: &str) -> Result<Self, &'static str> {
        Self::try_from(format!("{}/{name}", self.0))
    }

    /// The folder that contains it; `None` at the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }
}

impl LinkTarget {
    /// The target as a path of the file system.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl TryFrom<String> for TreePath {
    type Error = &'static str;

    fn try_from(path: String) -> Result<Self, &'static str> {
        let names = || path.split('/');
        let is_special = |name: &str| ["", ".", ".."].contains(&name) || name.eq_ignore_ascii_case(".git");
        if path.len() > LENGTH || names().any(|name| name.len() > NAME) {
            Err("the path, or a name in it, is too long")
        } else if path.contains('\0') {
            Err("the path contains a zero byte")
        } else if names().any(is_special) {
            Err("a name in the path is empty, `.`, `..` or `.git`")
        } else if names().count() > DEPTH {
            Err("the path is too deep")
        } else {
            Ok(Self(path))
        }
    }
}

impl TryFrom<String> for LinkTarget {
    type Error = &'static str;

    fn try_from(target: String) -> Result<Self, &'static str> {
        if target.is_empty() || target.len() > TARGET || target.contains('\0') {
            return Err("the target of the link is empty or too long, or contains a zero byte");
        }
        Ok(Self(target))
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_debug().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_could_leave_the_tree_or_enter_a_repository_is_refused() {
        let is_good = |path: &str| TreePath::try_from(path.to_owned()).is_ok();
        for good in ["a", "a/b", "...", "a b/é", ".gitignore", "a.git/x"] {
            assert!(is_good(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "a/../b",
            "./a",
            "a\0b",
            ".git",
            ".git/config",
            "a/.GIT/x",
        ] {
            assert!(!is_good(bad), "{bad:?}");
        }
        let long = [["a"; 199].join("/"), "b".repeat(NAME)].join("/");
        assert!(is_good(&long) && !is_good(&(long + "b")));
        let deep = vec!["a".repeat(NAME); 15].join("/");
        assert!(deep.len() > LENGTH && !is_good(&deep));
        assert!(is_good(&["a"; DEPTH].join("/")) && !is_good(&["a"; DEPTH + 1].join("/")));
        assert!(LinkTarget::try_from("../../etc/passwd".to_owned()).is_ok(), "it is never followed");
        for bad in [String::new(), "a\0".to_owned(), "a".repeat(TARGET + 1)] {
            assert!(LinkTarget::try_from(bad).is_err());
        }
    }
}
