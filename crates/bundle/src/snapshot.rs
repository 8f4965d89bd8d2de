//! The files of a tree of the host, to be packed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use sandbox_files::tree::Tree;

use crate::archive::{self, blob};
use crate::bundle::{MANIFEST, Manifest, TREE};
use crate::changes::{CHANGES, Changes};
use crate::digest::Digest;
use crate::entry::{Seen, changed};
use crate::error::PackError;
use crate::listing::{ENTRIES, Entry, Listing, too_many};
use crate::path::TreePath;
use crate::settings::Settings;

/// Entries of a tree of the host as they were read. Their bytes remain in the tree.
#[derive(Debug)]
pub struct Snapshot<'a> {
    tree: &'a Tree,
    listing: Listing,
    /// A file with each blob, and its size.
    blobs: BTreeMap<Digest, (u64, TreePath)>,
}

impl<'a> Snapshot<'a> {
    /// Looks at `paths` in `tree` and reads the files among them. What is in a folder is packed only
    /// if it is named, too. A path that does not exist is left out: git lists files that were removed.
    /// Follows no link.
    ///
    /// # Errors
    ///
    /// If an entry cannot be read, is not a file, folder or link, changes meanwhile, has a name that
    /// is not UTF-8, if the holes of all files have more than 1 GiB, or there are more than 1,000,000
    /// entries.
    pub fn read(tree: &'a Tree, paths: impl IntoIterator<Item = PathBuf>) -> Result<Self, PackError> {
        let (mut entries, mut blobs, mut seen) = (BTreeMap::new(), BTreeMap::new(), Seen::default());
        for path in paths {
            let text = path.to_str().ok_or_else(|| PackError::new(&path, "the name is not UTF-8"))?;
            let inner = TreePath::try_from(text.to_owned());
            let inner = inner.map_err(|problem| PackError::new(&path, problem))?;
            if entries.contains_key(&inner) {
                continue;
            }
            let Some(entry) = seen.entry(tree, &path)? else { continue };
            if entries.len() >= ENTRIES {
                return Err(PackError::new(&path, too_many()));
            }
            if let Entry::File { sha256, size, .. } = entry {
                blobs.entry(sha256).or_insert_with(|| (size, inner.clone()));
            }
            let mut folder = inner.parent();
            entries.insert(inner, entry);
            while let Some(path) = folder.filter(|path| !entries.contains_key(path)) {
                folder = path.parent();
                entries.insert(path, Entry::Folder);
            }
        }
        let listing = Listing::new(entries).map_err(|problem| PackError::new(Path::new("."), problem))?;
        Ok(Self { tree, listing, blobs })
    }

    /// The entries, with the folders that contain them.
    #[must_use]
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Writes a bundle of these entries and `settings` to `output`; returns its digest.
    ///
    /// # Errors
    ///
    /// If a reader would refuse it, a file does not have the bytes that were read any more, or
    /// reading or writing fails. What was written then is not a bundle.
    pub fn write(&self, output: &mut impl Write, settings: &Settings) -> Result<Digest, PackError> {
        let (manifest, listing) = Manifest::write(settings, &self.listing)
            .map_err(|error| PackError::new(Path::new(MANIFEST), error.to_string()))?;
        record(MANIFEST, &manifest, output)?;
        record(TREE, &listing, output)?;
        self.write_blobs(output)?;
        Ok(Digest::of(&manifest))
    }

    /// Writes the changes of which these entries are the new versions; `removed` are gone.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_changes(
        self,
        output: &mut impl Write,
        removed: BTreeSet<TreePath>,
    ) -> Result<(), PackError> {
        let Self { tree, listing, blobs } = self;
        let changes = Changes { removed, tree: listing };
        let bytes =
            changes.to_bytes().map_err(|error| PackError::new(Path::new(CHANGES), error.to_string()))?;
        record(CHANGES, &bytes, output)?;
        Self { tree, listing: changes.tree, blobs }.write_blobs(output)
    }

    fn write_blobs(&self, output: &mut impl Write) -> Result<(), PackError> {
        for (digest, (size, path)) in &self.blobs {
            let path = path.as_path();
            let failed = || PackError::io(path, "it cannot be copied");
            let file = self.tree.file(path).map_err(failed())?;
            let written = archive::write(output, &blob(digest), *size, file).map_err(failed())?;
            if written != (*size, *digest) {
                return Err(changed(path));
            }
        }
        let end = output.write_all(&archive::END).and_then(|()| output.flush());
        end.map_err(PackError::io(Path::new("."), "the archive cannot be written"))
    }
}

/// Writes an entry that is not a file of the tree.
fn record(at: &str, bytes: &[u8], output: &mut impl Write) -> Result<(), PackError> {
    let written = archive::write(output, at, bytes.len() as u64, bytes);
    written.map(drop).map_err(PackError::io(Path::new(at), "it cannot be written"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;
    use std::{fs, io};

    use super::*;
    use crate::entry::HOLES;
    use crate::{Bundle, Task};

    fn settings() -> Settings {
        let [image, working_dir] = ["x", "/workspace"].map(str::to_owned);
        Settings { task: Task::Command(vec!["make".to_owned()]), image, working_dir, ..Settings::default() }
    }

    fn tree(folder: &Path) -> Tree {
        fs::create_dir_all(folder.join("src/deep")).unwrap();
        fs::write(folder.join("src/deep/main.sh"), "echo same").unwrap();
        fs::write(folder.join("copy"), "echo same").unwrap();
        fs::set_permissions(folder.join("src/deep/main.sh"), fs::Permissions::from_mode(0o4755)).unwrap();
        symlink("/etc/passwd", folder.join("link")).unwrap();
        fs::create_dir(folder.join("empty")).unwrap();
        fs::write(folder.join("secret"), "not named").unwrap();
        Tree::open(folder).unwrap()
    }

    fn read<'a>(tree: &'a Tree, paths: &[&str]) -> Result<Snapshot<'a>, String> {
        Snapshot::read(tree, paths.iter().map(PathBuf::from)).map_err(|error| error.to_string())
    }

    fn packed(tree: &Tree) -> Vec<u8> {
        let paths = ["link", "src/deep/main.sh", "copy", "empty", "removed", "link/passwd", "copy"];
        let mut bytes = Vec::new();
        let digest = read(tree, &paths).unwrap().write(&mut bytes, &settings()).unwrap();
        assert_eq!(Bundle::read(&bytes[..]).unwrap().digest, digest);
        bytes
    }

    #[test]
    fn same_tree_gives_the_same_bytes_and_only_what_was_named() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let trees = folders.each_ref().map(|folder| tree(folder.path()));
        fs::set_permissions(folders[1].path().join("copy"), fs::Permissions::from_mode(0o600)).unwrap();
        let bytes = packed(&trees[0]);
        assert!(bytes == packed(&trees[1]), "owner, time and other permissions do not count");
        let Bundle { tree: listing, .. } = Bundle::read(&bytes[..]).unwrap();
        let names: Vec<_> = listing.entries().map(|(path, _)| path.to_string()).collect();
        assert_eq!(names, ["copy", "empty", "link", "src", "src/deep", "src/deep/main.sh"]);
        assert_eq!(listing.blobs().len(), 1, "one blob under two names");
        assert!(!bytes.windows(9).any(|bytes| bytes == b"not named"));
        fs::write(folders[1].path().join("copy"), "echo other").unwrap();
        assert!(bytes != packed(&trees[1]), "the control");
    }

    #[test]
    fn entry_that_cannot_travel_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();
        assert!(read(&tree, &["socket"]).unwrap_err().contains("a socket"));
        assert!(read(&tree, &["a/.git/config"]).unwrap_err().contains("`.git`"));
        let bytes = PathBuf::from(std::ffi::OsString::from_vec(b"a\xff".to_vec()));
        assert!(Snapshot::read(&tree, [bytes]).unwrap_err().to_string().contains("is not UTF-8"));
        let file = fs::File::create(folder.path().join("hole")).unwrap();
        file.set_len(HOLES + (1 << 20)).unwrap();
        assert!(read(&tree, &["hole"]).unwrap_err().contains("the holes of all files"));
        file.set_len(1 << 20).unwrap();
        assert!(read(&tree, &["hole"]).is_ok(), "the control: a small one");
    }

    #[test]
    fn file_that_changed_since_it_was_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, path) = (tree(folder.path()), folder.path().join("copy"));
        let snapshot = read(&tree, &["copy"]).unwrap();
        let write = || snapshot.write(&mut io::sink(), &settings()).map_err(|error| error.to_string());
        assert!(write().is_ok(), "the control");
        for text in ["echo Same", "echo"] {
            fs::write(&path, text).unwrap();
            assert_eq!(write().unwrap_err(), "failed to pack `copy`: it changed meanwhile");
        }
        fs::remove_file(&path).unwrap();
        symlink("src/deep/main.sh", &path).unwrap();
        assert_eq!(write().unwrap_err(), "failed to pack `copy`: it cannot be copied");
    }
}
