//! A folder outside of every mount for what must not stay where it is.

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

/// What is larger is renamed where it is when it cannot be moved without a copy.
const LARGEST_COPY: u64 = 64 * 1024 * 1024;
/// The same of all copies: whoever waits for the end of a run does not wait for them longer than a few seconds.
const MOST_COPIED: u64 = 512 * 1024 * 1024;
/// What a name ends with that no program knows.
const INERT: &str = ".quarantined";

/// What its owner needs to remove something from a folder.
const CHANGE: u32 = 0o700;
/// What its owner needs to copy a file.
const READ: u32 = 0o400;

/// The folder; it is made when something comes into it.
#[derive(Debug)]
pub(super) struct Quarantine {
    folder: PathBuf,
    /// The number of the next name. Lower ones are taken.
    next: Cell<u32>,
    /// Bytes that may still be copied into it.
    room: Cell<u64>,
}

impl Quarantine {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, next: Cell::new(0), room: Cell::new(MOST_COPIED) }
    }

    /// Moves `path` out of `tree`, and returns where it is now. A folder, and what is too large to be copied, stays where it was under a name
    /// that no program follows, if the quarantine is on another file system.
    pub(super) fn take(&self, tree: &Tree, path: &Path) -> io::Result<PathBuf> {
        let to = self.place(path)?;
        let moved = match self.relocate(tree, path, &to) {
            // Whoever wrote it may have closed its folder, or the file itself.
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

    /// A free place that shows where a thing came from, as far as names can that a task made up.
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

    /// Moves `path` out of `tree` to `to`, where nothing is.
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

    /// A file or link on another file system.
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
            // Of a pipe or a socket nothing is left to keep.
            Kind::Special => File::create_new(to).map(drop),
            Kind::File | Kind::Folder => Err(Errno::XDEV.into()),
        }
    }
}

/// Gives `path` a name in its own folder that no program follows, and takes the permission to execute it away.
fn rename_in_place(tree: &Tree, path: &Path) -> io::Result<PathBuf> {
    let (folder, name) = tree.parent(path)?;
    // Whoever cannot take it away renames it all the same.
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

/// Takes the permission to execute it away. What belongs to another user keeps it, and is moved away all the same.
fn disarm(at: &Path) {
    let disarmed = fs::symlink_metadata(at).and_then(|found| {
        if found.is_file() { fs::set_permissions(at, Permissions::from_mode(0o600)) } else { Ok(()) }
    });
    if let Err(error) = disarmed {
        tracing::warn!(path = %at.display(), %error, "what was moved away may still be executable");
    }
}

/// Puts back what was at `path` before, where nothing is now.
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

/// Makes the folder `folder` of `tree`, and those around it.
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
            // Fails for what is not empty.
            let removed = unlinkat(&parent, name, AtFlags::REMOVEDIR);
            if removed == Err(Errno::ACCESS)
                && tree.grant(folder.parent().unwrap_or(Path::new("")), CHANGE).is_ok()
            {
                let _ = unlinkat(&parent, name, AtFlags::REMOVEDIR);
            }
        }
    }
}
