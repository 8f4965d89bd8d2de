//! The content of a step's entry, as it was before it was in the stage.
//!
//! The stage is in the tree. A task that works on the tree itself, and began before the stage
//! existed, can write there, and can set all times that it may have changed.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use sandbox_files::tree::{Facts, Kind, Tree};

use super::super::sparse::add_content;

/// A digest of an entry with all that is in it: names, kinds, links' targets, and of protected files
/// also their permissions and contents. A task may write all other files in the tree anyway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Seal(String);

/// The digests of the entries of a [`Seal`], by their paths in it.
#[derive(Debug, Default)]
pub(super) struct Entries(BTreeMap<PathBuf, [u8; 32]>);

impl Seal {
    /// The seal of `path` in `tree`; `is_protected` is asked about paths below it.
    pub(super) fn of(tree: &Tree, path: &Path, is_protected: impl Fn(&Path) -> bool) -> io::Result<Self> {
        let mut entries = Entries::default();
        entries.add_all(Path::new(""), tree, path, is_protected)?;
        Ok(entries.seal())
    }
}

impl Entries {
    /// Adds the entry `path` of `tree` as `inner`; of a folder only itself. Returns its kind.
    pub(super) fn add(
        &mut self,
        inner: PathBuf,
        tree: &Tree,
        path: &Path,
        is_protected: bool,
    ) -> io::Result<Kind> {
        let facts = if path.as_os_str().is_empty() {
            Facts::of(tree.folder(path)?)?
        } else {
            tree.facts(path)?.ok_or(io::ErrorKind::NotFound)?
        };
        let mut hash = Sha256::new();
        match facts.kind {
            Kind::File => {
                hash.update(b"file");
                if is_protected {
                    hash.update((facts.mode & 0o777).to_le_bytes());
                    add_content(&tree.file(path)?, &mut hash)?;
                }
            }
            Kind::Folder => hash.update(b"folder"),
            Kind::Link => {
                hash.update(b"link");
                hash.update(tree.target(path)?.as_os_str().as_bytes());
            }
            Kind::Special => hash.update(b"special"),
        }
        self.0.insert(inner, hash.finalize().into());
        Ok(facts.kind)
    }

    /// Adds `path` of `tree` as `inner`, with all that is in it; `is_protected` is asked about paths
    /// below `path`.
    pub(super) fn add_all(
        &mut self,
        inner: &Path,
        tree: &Tree,
        path: &Path,
        is_protected: impl Fn(&Path) -> bool,
    ) -> io::Result<()> {
        let mut pending = vec![PathBuf::new()];
        while let Some(below) = pending.pop() {
            let at = joined(path, &below);
            if self.add(joined(inner, &below), tree, &at, is_protected(&below))? == Kind::Folder {
                pending.extend(tree.list(&at)?.into_iter().map(|(name, _)| below.join(name)));
            }
        }
        Ok(())
    }

    pub(super) fn seal(self) -> Seal {
        let mut hash = Sha256::new();
        for (path, digest) in self.0 {
            let name = path.as_os_str().as_bytes();
            hash.update(name.len().to_le_bytes());
            hash.update(name);
            hash.update(digest);
        }
        Seal(BASE64_STANDARD.encode(hash.finalize()))
    }
}

fn joined(path: &Path, inner: &Path) -> PathBuf {
    if inner.as_os_str().is_empty() { path.to_owned() } else { path.join(inner) }
}
