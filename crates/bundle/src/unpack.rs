//! Creates the tree of a listing in a new folder.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::digest::Digest;
use crate::listing::{Entry, Listing};

/// The time of a bundle's files, since 1970: tools compare the times of files, and some accept none
/// before 1980.
pub(crate) const TIME: Duration = Duration::from_hours(24 * 3_653);

/// Bytes of a block, of which an entry takes at least one.
const BLOCK: u64 = 4_096;

/// A tree of which the files have no content yet. A listing has entries in folders only, and links are
/// created last, so nothing is written through one.
#[derive(Debug)]
pub(crate) struct Unpacked {
    root: PathBuf,
    /// The files with each blob: its path, and whether it is executable.
    files: BTreeMap<Digest, Vec<(PathBuf, bool)>>,
}

impl Unpacked {
    /// Creates the folder `root` and those in it.
    pub(crate) fn begin(tree: &Listing, root: &Path) -> io::Result<Self> {
        let mut files: BTreeMap<_, Vec<_>> = BTreeMap::new();
        make_folder(root)?;
        check_room(tree, root)?;
        for (path, entry) in tree.entries() {
            let path = root.join(path.as_path());
            match entry {
                Entry::Folder => make_folder(&path)?,
                Entry::File { sha256, executable, .. } => {
                    files.entry(*sha256).or_default().push((path, *executable));
                }
                Entry::Link(_) => {}
            }
        }
        Ok(Self { root: root.to_owned(), files })
    }

    /// The first file with this blob, to be filled.
    pub(crate) fn blob(&self, digest: &Digest) -> io::Result<File> {
        let first = self.files.get(digest).and_then(|files| files.first());
        let (path, executable) = first.ok_or(io::ErrorKind::NotFound)?;
        make_file(path, *executable)
    }

    /// Completes the tree: all blobs were filled. Its files get the time `since_1970`, if any.
    pub(crate) fn finish(self, tree: &Listing, since_1970: Option<Duration>) -> io::Result<()> {
        for files in self.files.into_values() {
            let mut first: Option<PathBuf> = None;
            for (path, executable) in files {
                let file = match &first {
                    None => OpenOptions::new().write(true).open(&path)?,
                    Some(first) => {
                        let mut copy = make_file(&path, executable)?;
                        io::copy(&mut File::open(first)?, &mut copy)?;
                        copy
                    }
                };
                if let Some(time) = since_1970 {
                    file.set_modified(SystemTime::UNIX_EPOCH + time)?;
                }
                first = first.or(Some(path));
            }
        }
        for (path, entry) in tree.entries() {
            if let Entry::Link(target) = entry {
                symlink(target.as_path(), self.root.join(path.as_path()))?;
            }
        }
        Ok(())
    }
}

/// Refuses a tree that would take more than half of the free space or inodes around `folder`: each entry
/// takes whole blocks.
fn check_room(tree: &Listing, folder: &Path) -> io::Result<()> {
    let room = rustix::fs::statvfs(folder)?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let content = tree.sizes().fold(0, u64::saturating_add);
    let entries = tree.entries().count() as u64;
    let bytes = content.saturating_add(entries.saturating_mul(BLOCK));
    // Some file systems have no fixed number.
    let has_inodes = room.f_files == 0 || entries <= room.f_favail / 2;
    if bytes <= free / 2 && has_inodes {
        return Ok(());
    }
    let problem = format!(
        "{entries} entries with {content} bytes would take more than half of the {free} bytes, or of the inodes, that are free"
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, problem))
}

/// With permissions that do not depend on the umask, here and below.
fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn make_file(path: &Path, executable: bool) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(if executable { 0o755 } else { 0o644 }))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::TreePath;

    #[test]
    fn tree_that_is_larger_than_half_of_the_free_space_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tree = |size: u64| {
            let file = Entry::File { sha256: Digest::of(b"x"), size, executable: false };
            let names = ["a", "b"].map(|name| (TreePath::try_from(name.to_owned()).unwrap(), file.clone()));
            Listing::new(names.into()).unwrap()
        };
        assert!(Unpacked::begin(&tree(1), &folder.path().join("small")).is_ok(), "the control");
        let error = Unpacked::begin(&tree(1 << 51), &folder.path().join("large")).unwrap_err();
        assert!(error.to_string().contains("more than half of the"), "{error}");
        assert!(Unpacked::begin(&tree(1), &folder.path().join("small")).is_err(), "the folder exists");
    }
}
