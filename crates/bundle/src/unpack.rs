//! Creates the tree of a listing in a new folder.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::digest::Digest;
use crate::listing::{Entry, Listing};

/// The time of all files, since 1970: tools compare the times of files, and some accept none
/// before 1980.
const TIME: Duration = Duration::from_hours(24 * 3_653);

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

    /// Completes the tree: all blobs were filled.
    pub(crate) fn finish(self, tree: &Listing) -> io::Result<()> {
        let time = SystemTime::UNIX_EPOCH + TIME;
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
                file.set_modified(time)?;
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
