//! A task's files, linked or copied to a folder in the tree, from which one rename moves each to
//! its place.

use std::ffi::OsStr;
use std::fs::{File, FileTimes, Permissions};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rand::RngExt as _;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, SeekFrom, StatxFlags, Uid, chownat, fstat, linkat, mkdirat, openat, seek,
    statx, symlinkat,
};
use rustix::io::Errno;

use sandbox_files::tree::{Facts, Kind, Tree};

use super::super::removal;
use super::change::Change;
use super::changes::{Comparison, target};
use super::xattr;

/// The prefix of stages' names.
const PREFIX: &str = ".sandbox-apply-";

/// The folder. It is in the tree, since only there it is certainly on the tree's file system.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) tree: Tree,
    /// Owner and group of new entries.
    owner: (u32, u32),
}

/// An unused name for a stage.
pub(super) fn name() -> String {
    format!("{PREFIX}{:016x}", rand::rng().random::<u64>())
}

impl Stage {
    pub(super) fn create(host: &Tree, name: &str) -> io::Result<Self> {
        mkdirat(host.folder(Path::new(""))?, name, Mode::from_raw_mode(0o700))?;
        Self::open(host, name)
    }

    /// Opens a stage, which is a folder directly in the tree: a user who may write the tree could
    /// replace it with a link.
    pub(super) fn open(host: &Tree, name: &str) -> io::Result<Self> {
        let top = fstat(host.folder(Path::new(""))?)?;
        Ok(Self { tree: host.inner(Path::new(checked(name)?))?, owner: (top.st_uid, top.st_gid) })
    }

    /// Brings the upper layer's entry of `change` to `place` in the stage; for a folder only
    /// itself. A file that needs no change gets a second name there, if both are on one file
    /// system; all others are copied. So are protected ones: a task that can write to the stage must not
    /// change the copy through it.
    pub(super) fn put(
        &self,
        from: &Comparison,
        change: &Change,
        place: &Path,
        is_protected: bool,
    ) -> io::Result<()> {
        let path = change.path.as_path();
        let facts = change.now.ok_or(io::ErrorKind::NotFound)?;
        let before = change.before.filter(|before| before.kind == facts.kind);
        let (folder, name) = self.tree.parent(place)?;
        match facts.kind {
            Kind::Folder => {
                mkdirat(&folder, name, Mode::from_raw_mode(0o700))?;
                let made = self.tree.folder(place)?;
                rustix::fs::fchmod(&made, Mode::from_raw_mode(facts.mode & 0o777 | 0o700))?;
            }
            Kind::Link => symlinkat(target(&from.upper, path)?, &folder, name)?,
            Kind::File if !is_protected && link(from, path, &facts, (&folder, name))? => {}
            Kind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let new = File::from(openat(&folder, name, flags, Mode::from_raw_mode(0o600))?);
                fill(&new, &from.upper.file(path)?, &facts)?;
            }
            Kind::Special => return Err(io::ErrorKind::Unsupported.into()),
        }
        self.give(&folder, name, before)
    }

    /// Copies `made`, one of our own folders, with its content to `place`; adds each entry to
    /// `places`.
    pub(super) fn put_all(&self, made: &Tree, place: &Path, places: &mut Vec<PathBuf>) -> io::Result<()> {
        let mut pending = vec![(PathBuf::new(), Kind::Folder)];
        while let Some((path, kind)) = pending.pop() {
            let inner = if path.as_os_str().is_empty() { place.to_owned() } else { place.join(&path) };
            let (folder, name) = self.tree.parent(&inner)?;
            if kind == Kind::Folder {
                mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
                pending.extend(made.list(&path)?.into_iter().map(|(name, kind)| (path.join(name), kind)));
            } else {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let new = File::from(openat(&folder, name, flags, Mode::from_raw_mode(0o600))?);
                let content = made.file(&path)?;
                fill(&new, &content, &Facts::of(&content)?)?;
            }
            self.give(&folder, name, None)?;
            places.push(inner);
        }
        Ok(())
    }

    /// Gives the new file to the owner of the former one, else to that of the tree: in a container
    /// everything belongs to root.
    fn give(&self, folder: &OwnedFd, name: &OsStr, before: Option<Facts>) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let (uid, gid) = before.map_or(self.owner, |before| (before.uid, before.gid));
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        Ok(chownat(folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Whether a second name may be enough to turn a file of the upper layer into one of the tree: it
/// has no other name.
pub(super) fn may_be_linked(facts: &Facts) -> bool {
    let user = rustix::process::geteuid();
    facts.kind == Kind::File
        && facts.links == 1
        && facts.mode & 0o7000 == 0
        && (user.is_root() || facts.uid == user.as_raw())
}

/// Gives the file `path` of the upper layer a second name, if possible.
fn link(
    from: &Comparison,
    path: &Path,
    facts: &Facts,
    (folder, name): (&OwnedFd, &OsStr),
) -> io::Result<bool> {
    // A link must not bring attributes along that a copy would drop.
    if !may_be_linked(facts) || xattr::has_any(from.upper.held(path)?)? {
        return Ok(false);
    }
    let (upper, its_name) = from.upper.parent(path)?;
    match linkat(&upper, its_name, folder, name, AtFlags::empty()) {
        Ok(()) => {}
        Err(Errno::XDEV | Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let linked = Facts::from(&statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)?);
    // No task works in the copy any more: the linked file is the one that was checked.
    if linked.is_same_file(facts) && linked.mode == facts.mode {
        Ok(true)
    } else {
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

fn fill(new: &File, content: &File, facts: &Facts) -> io::Result<()> {
    copy_data(content, new)?;
    // Never set-user-id and the like.
    new.set_permissions(Permissions::from_mode(facts.mode & 0o777))?;
    new.set_times(FileTimes::new().set_modified(content.metadata()?.modified()?))
}

/// Copies the data of a file, and preserves its holes, which would otherwise fill the disk.
fn copy_data(from: &File, mut to: &File) -> io::Result<()> {
    let size = from.metadata()?.len();
    let mut at = 0;
    while at < size {
        let data = match seek(from, SeekFrom::Data(at)) {
            // A hole to the end.
            Err(Errno::NXIO) => break,
            data => data?,
        };
        let end = seek(from, SeekFrom::Hole(data))?;
        seek(from, SeekFrom::Start(data))?;
        seek(to, SeekFrom::Start(data))?;
        io::copy(&mut from.take(end.saturating_sub(data)), &mut to)?;
        at = end.max(data + 1);
    }
    to.set_len(size)
}

/// The place of a new entry.
pub(super) fn new(number: usize) -> PathBuf {
    format!("new-{number}").into()
}

/// The place of a former entry.
pub(super) fn old(number: usize) -> PathBuf {
    format!("old-{number}").into()
}

/// Removes a stage; a missing one counts as removed. Entries that this user cannot remove remain:
/// the tree is in its final state all the same.
pub(super) fn remove(root: &Path, name: &str) {
    let removed = checked(name)
        .and_then(|name| removal::remove(Tree::open(root)?.folder(Path::new(""))?, OsStr::new(name)));
    if let Err(error) = removed {
        let stage = root.join(name);
        tracing::warn!(stage = %stage.display(), %error, "failed to remove an unused stage of an apply");
    }
}

/// Refuses a name from a file that leads elsewhere.
fn checked(name: &str) -> io::Result<&str> {
    if name.starts_with(PREFIX) && !name.contains('/') {
        Ok(name)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}
