//! A place for the files of one run, and next to it one that no run may touch.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::script::Entry;

/// In memory if possible: a run creates many files.
const IN_MEMORY: &str = "/dev/shm";

/// A path's entry: a folder, a link with its target, or a file with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Folder,
    Link(PathBuf),
    File(Vec<u8>),
    Special,
}

/// The folders of one run.
#[derive(Debug)]
pub(crate) struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// New folders: the tree, which is empty, and the one outside.
    ///
    /// # Errors
    ///
    /// If they cannot be created.
    pub(crate) fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir_in(IN_MEMORY).or_else(|_| tempfile::tempdir())?;
        let fixture = Self { folder };
        for path in [fixture.tree(), fixture.outside(), fixture.outside().join("folder")] {
            fs::create_dir(path)?;
        }
        for path in ["secret", "folder/inner"] {
            fs::write(fixture.outside().join(path), "outside")?;
        }
        Ok(fixture)
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    pub(crate) fn copy(&self) -> PathBuf {
        self.folder.path().join("copy")
    }

    /// Creates `entries` in `root`. It skips those that cannot be created, such as a name that is
    /// too long, or a device without the privilege.
    pub(crate) fn make<'a>(&self, root: &Path, entries: impl Iterator<Item = Entry<'a>>) {
        let outside = self.outside();
        for entry in entries {
            let _ = entry.make(root, &outside);
        }
    }

    /// Panics if the folder outside has changed, or if something else is next to the tree.
    pub(crate) fn check_outside(&self) {
        let text = || Found::File(b"outside".to_vec());
        let expected = [("folder", Found::Folder), ("folder/inner", text()), ("secret", text())]
            .map(|(path, found)| (PathBuf::from(path), found));
        assert!(
            found(&self.outside()) == BTreeMap::from(expected),
            "something was written outside of the tree"
        );
        let entries = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            assert!(
                name == "tree" || name == "outside" || name == "copy",
                "something was written next to the tree: {}",
                name.display()
            );
        }
    }
}

/// All entries in `root`, by path.
pub(crate) fn found(root: &Path) -> BTreeMap<PathBuf, Found> {
    let mut all = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let kind = entry.file_type().ok();
            let is = |what: fn(&fs::FileType) -> bool| kind.as_ref().is_some_and(what);
            let found = if is(fs::FileType::is_dir) {
                pending.push(path.clone());
                Found::Folder
            } else if is(fs::FileType::is_symlink) {
                Found::Link(fs::read_link(&path).unwrap_or_default())
            } else if is(fs::FileType::is_file) {
                Found::File(fs::read(&path).unwrap_or_default())
            } else {
                Found::Special
            };
            all.insert(path.strip_prefix(root).unwrap_or(&path).to_owned(), found);
        }
    }
    all
}
