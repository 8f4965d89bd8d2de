//! The names of everything that a work tree held when a copy began: what is missing later was removed on the host.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::Replacement;
use sandbox_files::tree::{Kind, Tree};

use super::super::error::WorkspaceError;

const NAME: &str = "names";

/// Paths relative to the work tree. Only ever asked for a few of them: kept as bytes, which hash much faster than paths.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<Box<[u8]>>);

impl Names {
    /// Lists `tree`, and keeps the names in `folder`.
    pub(super) fn write(tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
        let failed = |source| WorkspaceError::new("list", tree, source);
        let host = Tree::open(tree).map_err(failed)?;
        let text = listed(&host).map_err(failed)?;
        // A start does not wait for the disk: what a failure of the machine leaves here is refused, or seen as a conflict.
        let path = Self::path(folder);
        Replacement::private()
            .write(&path, &text)
            .map_err(|source| WorkspaceError::new("write", &path, source))
    }

    pub(super) fn read(folder: &Path) -> Result<Self, WorkspaceError> {
        let path = Self::path(folder);
        let text = fs::read(&path).map_err(|source| WorkspaceError::new("read", &path, source))?;
        let names = text.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(Self(names.map(Box::from).collect()))
    }

    /// Where they are kept.
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join(NAME)
    }

    /// In no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|name| Path::new(OsStr::from_bytes(name)))
    }

    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.0.contains(path.as_os_str().as_bytes())
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
