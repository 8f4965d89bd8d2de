//! The names of all entries in a work tree when a copy began: names that are missing later were
//! removed on the host.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::Replacement;
use sandbox_files::tree::{Kind, Tree};

use super::error::WorkspaceError;

const NAME: &str = "names";

/// Paths relative to the work tree, in the order of [`Path`], each followed by a zero byte. They
/// have no index: building one would cost more than the rest of a small apply.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<u8>);

impl Names {
    /// Lists `tree`, and stores the names in `folder`.
    pub(crate) fn write(tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
        let failed = |source| WorkspaceError::new("list", tree, source);
        let host = Tree::open(tree).map_err(failed)?;
        let text = listed(&host).map_err(failed)?;
        // A start does not wait for the disk: a file that a machine failure damages is refused, or
        // leads to a conflict.
        let path = Self::path(folder);
        Replacement::private()
            .write(&path, &text)
            .map_err(|source| WorkspaceError::new("write", &path, source))
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, WorkspaceError> {
        let path = Self::path(folder);
        let text = fs::read(&path).map_err(|source| WorkspaceError::new("read", &path, source))?;
        Ok(Self(text))
    }

    /// The path of the stored names.
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join(NAME)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let names = self.0.split(|byte| *byte == 0);
        names.filter(|name| !name.is_empty())
    }

    pub(crate) fn contains(&self, path: &Path) -> bool {
        let mut rest = self.0.as_slice();
        while !rest.is_empty() {
            let (before, after) = rest.split_at(rest.len() / 2);
            let begin = before.iter().rposition(|byte| *byte == 0).map_or(0, |zero| zero + 1);
            let length = after.iter().position(|byte| *byte == 0).unwrap_or(after.len());
            let end = before.len() + length;
            let name = rest.get(begin..end).unwrap_or_default();
            rest = match path.cmp(Path::new(OsStr::from_bytes(name))) {
                Ordering::Equal => return true,
                Ordering::Less => rest.get(..begin),
                Ordering::Greater => rest.get(end + 1..),
            }
            .unwrap_or_default();
        }
        false
    }
}

/// All paths in `host` in the order of [`Names`]: a folder before its content, and its entries
/// sorted.
fn listed(host: &Tree) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut folders = vec![(PathBuf::new(), host.list(Path::new(""))?.into_iter())];
    while let Some((folder, entries)) = folders.last_mut() {
        let Some((name, kind)) = entries.next() else {
            folders.pop();
            continue;
        };
        let begin = text.len();
        if !folder.as_os_str().is_empty() {
            text.extend_from_slice(folder.as_os_str().as_bytes());
            text.push(b'/');
        }
        text.extend_from_slice(name.as_bytes());
        let path = (kind == Kind::Folder)
            .then(|| PathBuf::from(OsStr::from_bytes(text.get(begin..).unwrap_or_default())));
        text.push(0);
        let Some(path) = path else { continue };
        match host.list(&path) {
            Ok(entries) => folders.push((path, entries.into_iter())),
            // The task cannot read it either, or it has just been removed.
            Err(error) => tracing::debug!(folder = %path.display(), %error, "failed to list a folder"),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_listed_names_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        // As a byte, `/` does not sort before `-` and `.`.
        let folders = ["a", "a-b", "a.b/a", "a/b/c", "ab", "empty", "b/a/a/a"];
        for path in folders {
            fs::create_dir_all(tree.join(path)).unwrap();
            fs::write(tree.join(path).join("file"), "").unwrap();
        }
        Names::write(&tree, folder.path()).unwrap();
        let names = Names::read(folder.path()).unwrap();
        let paths: Vec<&Path> = names.iter().map(|name| Path::new(OsStr::from_bytes(name))).collect();
        assert_eq!(paths.len(), 19);
        assert!(paths.is_sorted(), "{paths:?}");
        for path in paths {
            assert!(tree.join(path).exists());
            assert!(names.contains(path), "{path:?}");
            let (longer, inner) = (path.with_added_extension("x"), path.join("x"));
            assert!(!names.contains(&longer) && !names.contains(&inner), "{path:?}");
        }
        assert!(!names.contains(Path::new("")) && !names.contains(Path::new("0")));
        assert!(!Names::default().contains(Path::new("a")));
    }
}
