//! The names of everything that a work tree held when a copy began: what is missing later was removed on the host.

use std::ffi::OsStr;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use hashbrown::HashTable;
use sandbox_files::Replacement;
use sandbox_files::tree::{Kind, Tree};

use super::error::WorkspaceError;

const NAME: &str = "names";

/// Paths relative to the work tree: the text of the list, and an index of it. An allocation for each path would cost more than the rest of a
/// small apply.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: Vec<u8>,
    index: HashTable<Range<usize>>,
    hasher: RandomState,
}

impl Names {
    /// Lists `tree`, and keeps the names in `folder`.
    pub(crate) fn write(tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
        let failed = |source| WorkspaceError::new("list", tree, source);
        let host = Tree::open(tree).map_err(failed)?;
        let text = listed(&host).map_err(failed)?;
        // A start does not wait for the disk: what a failure of the machine leaves here is refused, or seen as a conflict.
        let path = Self::path(folder);
        Replacement::private()
            .write(&path, &text)
            .map_err(|source| WorkspaceError::new("write", &path, source))
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, WorkspaceError> {
        let path = Self::path(folder);
        let text = fs::read(&path).map_err(|source| WorkspaceError::new("read", &path, source))?;
        Ok(Self::parse(text))
    }

    fn parse(text: Vec<u8>) -> Self {
        let hasher = RandomState::new();
        let hash = |range: &Range<usize>| hasher.hash_one(text.get(range.clone()));
        let mut index = HashTable::with_capacity(text.split(|byte| *byte == 0).count());
        let mut begin = 0;
        for name in text.split(|byte| *byte == 0) {
            let range = begin..begin + name.len();
            begin = range.end + 1;
            if !name.is_empty() {
                index.insert_unique(hash(&range), range, hash);
            }
        }
        Self { text, index, hasher }
    }

    /// Where they are kept.
    pub(crate) fn path(folder: &Path) -> PathBuf {
        folder.join(NAME)
    }

    /// In the order in which they were listed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let names = self.text.split(|byte| *byte == 0);
        names.filter(|name| !name.is_empty())
    }

    pub(crate) fn contains(&self, path: &Path) -> bool {
        let path = Some(path.as_os_str().as_bytes());
        let is_same = |range: &Range<usize>| self.text.get(range.clone()) == path;
        self.index.find(self.hasher.hash_one(path), is_same).is_some()
    }
}

/// All paths in `host`, a zero byte after each.
fn listed(host: &Tree) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(inner) = pending.pop() {
        let entries = match host.list(&inner) {
            // The task cannot read it either, or it went away just now.
            Err(error) if !inner.as_os_str().is_empty() => {
                tracing::debug!(folder = %inner.display(), %error, "cannot be listed");
                continue;
            }
            entries => entries?,
        };
        for (name, kind) in entries {
            let begin = text.len();
            if !inner.as_os_str().is_empty() {
                text.extend_from_slice(inner.as_os_str().as_bytes());
                text.push(b'/');
            }
            text.extend_from_slice(name.as_bytes());
            if kind == Kind::Folder {
                let path = text.get(begin..).unwrap_or_default();
                pending.push(OsStr::from_bytes(path).into());
            }
            text.push(0);
        }
    }
    Ok(text)
}
