//! Copies of what a task wrote, beside the tree, from where one rename brings each into it.

use std::fs::{self, DirBuilder, File, FileTimes, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rand::RngExt as _;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, chownat, mkdirat, openat, symlinkat};

use super::super::tree::{Facts, Kind, Tree};
use super::changes::{Comparison, target};

/// What the names of stages begin with.
const PREFIX: &str = ".sandbox-apply-";

/// The folder, which is in the tree, since only there it surely is on the tree's file system.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) tree: Tree,
    /// Owner and group of what is new.
    owner: (u32, u32),
}

/// A name for a stage that nothing has yet.
pub(super) fn name() -> String {
    format!("{PREFIX}{:016x}", rand::rng().random::<u64>())
}

impl Stage {
    pub(super) fn create(root: &Path, name: &str) -> io::Result<Self> {
        DirBuilder::new().mode(0o700).create(root.join(name))?;
        Self::open(root, name)
    }

    pub(super) fn open(root: &Path, name: &str) -> io::Result<Self> {
        let facts = fs::metadata(root)?;
        Ok(Self {
            tree: Tree::open(&root.join(name))?,
            owner: (facts.uid(), facts.gid()),
        })
    }

    /// Copies `path` of the upper layer to `place` in the stage; of a folder only itself.
    pub(super) fn copy(&self, from: &Comparison, path: &Path, place: &Path) -> io::Result<()> {
        let facts = from.upper.facts(path)?.ok_or(io::ErrorKind::NotFound)?;
        let before = from.host.facts(path)?.filter(|before| before.kind == facts.kind);
        let (folder, name) = self.tree.parent(place)?;
        match facts.kind {
            Kind::Folder => {
                mkdirat(&folder, name, Mode::from_raw_mode(0o700))?;
                let made = self.tree.folder(place)?;
                rustix::fs::fchmod(&made, Mode::from_raw_mode(facts.mode & 0o777 | 0o700))?;
            }
            Kind::Link => symlinkat(target(&from.upper, path)?, &folder, name)?,
            Kind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let new = File::from(openat(&folder, name, flags, Mode::from_raw_mode(0o600))?);
                fill(new, from.upper.file(path)?, &facts)?;
            }
            Kind::Special => return Err(io::ErrorKind::Unsupported.into()),
        }
        self.give(&folder, name, before)
    }

    /// To whom the former file belonged, else to whom the tree does: in a container everything is root's.
    fn give(&self, folder: &OwnedFd, name: &std::ffi::OsStr, before: Option<Facts>) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let (uid, gid) = before.map_or(self.owner, |before| (before.uid, before.gid));
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        Ok(chownat(
            folder,
            name,
            Some(uid),
            Some(gid),
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }
}

fn fill(mut new: File, mut content: File, facts: &Facts) -> io::Result<()> {
    io::copy(&mut content, &mut new)?;
    // Never set-user-id and the like.
    new.set_permissions(Permissions::from_mode(facts.mode & 0o777))?;
    new.set_times(FileTimes::new().set_modified(content.metadata()?.modified()?))
}

/// Where what is put waits.
pub(super) fn new(number: usize) -> PathBuf {
    format!("new-{number}").into()
}

/// Where what was there is kept.
pub(super) fn old(number: usize) -> PathBuf {
    format!("old-{number}").into()
}

/// Removes a stage; one that is gone is done.
pub(super) fn remove(root: &Path, name: &str) -> io::Result<()> {
    // A name from a file must not lead elsewhere.
    if !name.starts_with(PREFIX) || name.contains('/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match fs::remove_dir_all(root.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
