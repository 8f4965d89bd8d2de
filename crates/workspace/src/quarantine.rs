//! A folder outside every mount for entries that must not remain in place.

use std::cell::Cell;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Uid, chownat, mkdirat, openat, renameat, renameat_with,
    symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use sandbox_files::tree::{Kind, Tree};

use super::inventory::{Content, Leaf};

/// Larger files are renamed in place if they cannot be moved without a copy.
const LARGEST_COPY: u64 = 64 * 1024 * 1024;
/// Bytes of all copies together: copying must not delay the end of a run by more than a few
/// seconds.
const MOST_COPIED: u64 = 512 * 1024 * 1024;
/// The end of a name that no program knows.
const INERT: &str = ".quarantined";

/// The permissions that the owner needs to remove an entry from a folder.
const CHANGE: u32 = 0o700;
/// The permission that the owner needs to copy a file.
const READ: u32 = 0o400;

/// The folder, created for the first entry.
#[derive(Debug)]
pub(super) struct Quarantine {
    folder: PathBuf,
    /// The number of the next name. Lower ones are used.
    next: Cell<u32>,
    /// Bytes that may still be copied into it.
    room: Cell<u64>,
}

impl Quarantine {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, next: Cell::new(0), room: Cell::new(MOST_COPIED) }
    }

    /// Moves `path` out of `tree`, and returns its new path. If the quarantine is on another file
    /// system, a folder or a file too large to copy remains in its folder under a name that no
    /// program follows.
    pub(super) fn take(&self, tree: &Tree, path: &Path) -> io::Result<PathBuf> {
        let to = self.place(path)?;
        let moved = match self.relocate(tree, path, &to) {
            // The task may have closed its folder, or the file itself.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let folder = path.parent().unwrap_or(Path::new(""));
                let _ = tree.grant(folder, CHANGE);
                let _ = tree.grant(path, READ);
                self.relocate(tree, path, &to)
            }
            moved => moved,
        };
        match moved {
            Err(error) if error.raw_os_error() == Some(Errno::XDEV.raw_os_error()) => {
                rename_in_place(tree, path)
            }
            moved => moved.map(|()| {
                disarm(&to);
                to
            }),
        }
    }

    /// A free path that shows an entry's origin, as far as names that a task chose can.
    fn place(&self, path: &Path) -> io::Result<PathBuf> {
        if self.next.get() == 0 {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        }
        let flat: String = path
            .to_string_lossy()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' })
            .take(120)
            .collect();
        loop {
            let number = self.next.get();
            self.next.set(number.checked_add(1).ok_or(io::ErrorKind::AlreadyExists)?);
            let place = self.folder.join(format!("{number}-{flat}"));
            if fs::symlink_metadata(&place).is_err() {
                return Ok(place);
            }
        }
    }

    /// Moves `path` out of `tree` to the free path `to`.
    fn relocate(&self, tree: &Tree, path: &Path, to: &Path) -> io::Result<()> {
        let (folder, name) = tree.parent(path)?;
        match renameat(&folder, name, CWD, to) {
            Err(Errno::XDEV) => {
                self.copy(tree, path, to)?;
                unlinkat(&folder, name, AtFlags::empty()).or_else(|error| {
                    fs::remove_file(to)?;
                    Err(error.into())
                })
            }
            renamed => Ok(renamed?),
        }
    }

    /// Copies a file or link from another file system.
    fn copy(&self, tree: &Tree, path: &Path, to: &Path) -> io::Result<()> {
        let facts = tree.facts(path)?.ok_or(io::ErrorKind::NotFound)?;
        match facts.kind {
            Kind::File if facts.size <= LARGEST_COPY.min(self.room.get()) => {
                let mut original = tree.file(path)?.take(facts.size);
                let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
                self.room.set(self.room.get().saturating_sub(facts.size));
                io::copy(&mut original, &mut copy).map(drop)
            }
            Kind::Link => Ok(rustix::fs::symlink(tree.target(path)?, to)?),
            // A pipe or a socket has no content to keep.
            Kind::Special => File::create_new(to).map(drop),
            Kind::File | Kind::Folder => Err(Errno::XDEV.into()),
        }
    }
}

/// Renames `path` within its folder to a name that no program follows, and removes its permission
/// to be executed.
fn rename_in_place(tree: &Tree, path: &Path) -> io::Result<PathBuf> {
    let (folder, name) = tree.parent(path)?;
    // Rename it even if its permissions cannot be removed.
    let _ = tree.revoke(path, 0o6111);
    for number in 0..1000 {
        let mut inert = name.to_owned();
        inert.push(format!("{INERT}-{number}"));
        match renameat_with(&folder, name, &folder, &inert, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(tree.path().join(path.with_file_name(inert))),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes the permission to be executed. Entries of another user keep it, and are moved away all
/// the same.
fn disarm(at: &Path) {
    let disarmed = fs::symlink_metadata(at).and_then(|found| {
        if found.is_file() { fs::set_permissions(at, Permissions::from_mode(0o600)) } else { Ok(()) }
    });
    if let Err(error) = disarmed {
        tracing::warn!(path = %at.display(), %error, "an entry that was moved away may still be executable");
    }
}

/// Restores the former entry at `path`, where nothing is now.
pub(super) fn restore(tree: &Tree, path: &Path, before: &Leaf) -> io::Result<()> {
    let content = before.content.as_ref().ok_or_else(|| io::Error::other("it was too large to be kept"))?;
    make_folders(tree, path.parent().unwrap_or(Path::new("")))?;
    let (folder, name) = tree.parent(path)?;
    match content {
        Content::File(text) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(before.facts.mode & 0o777);
            let mut file = File::from(openat(&folder, name, flags, mode)?);
            file.write_all(text)?;
        }
        Content::Link(target) => symlinkat(target, &folder, name)?,
    }
    if geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(before.facts.uid), Gid::from_raw(before.facts.gid));
        chownat(&folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// Creates the folder `folder` of `tree`, and its parents.
fn make_folders(tree: &Tree, folder: &Path) -> io::Result<()> {
    let mut missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && matches!(tree.facts(folder), Ok(None)))
        .collect();
    while let Some(folder) = missing.pop() {
        let (parent, name) = tree.parent(folder)?;
        mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
    }
    Ok(())
}

/// Removes the folder `top` and those in it, as far as they are empty.
pub(super) fn remove_empty(tree: &Tree, top: &Path) {
    let mut folders = vec![top.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        let entries = tree.list(&folder).unwrap_or_default();
        let inner = entries.into_iter().filter(|(_, kind)| *kind == Kind::Folder);
        folders.extend(inner.map(|(name, _)| folder.join(name)));
        next += 1;
    }
    for folder in folders.iter().rev() {
        if let Ok((parent, name)) = tree.parent(folder) {
            // Fails if it is not empty.
            let removed = unlinkat(&parent, name, AtFlags::REMOVEDIR);
            if removed == Err(Errno::ACCESS)
                && tree.grant(folder.parent().unwrap_or(Path::new("")), CHANGE).is_ok()
            {
                let _ = unlinkat(&parent, name, AtFlags::REMOVEDIR);
            }
        }
    }
}
