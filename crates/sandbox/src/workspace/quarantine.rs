//! A folder outside of every mount for what must not stay where it is.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, readlinkat, renameat, unlinkat};
use rustix::io::Errno;

use super::inventory::Leaf;
use super::tree::{Kind, Tree};

/// What is larger is no hook and no configuration: it stays where it is when it cannot be moved without a copy.
const LARGEST_COPY: u64 = 64 * 1024 * 1024;

/// What its owner needs to remove something from a folder.
const CHANGE: u32 = 0o700;
/// What its owner needs to copy a file.
const READ: u32 = 0o400;

/// The folder; it is made when something comes into it.
#[derive(Debug)]
pub(super) struct Quarantine {
    folder: PathBuf,
}

impl Quarantine {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Moves `path`, which is no folder, out of `tree`, and tells where it is now.
    pub(super) fn take(&self, tree: &Tree, path: &Path) -> io::Result<PathBuf> {
        let to = self.place(path)?;
        match relocate(tree, path, &to) {
            // Whoever wrote it may have closed its folder, or the file itself.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let folder = path.parent().unwrap_or(Path::new(""));
                let _ = tree.grant(folder, CHANGE);
                let _ = tree.grant(path, READ);
                relocate(tree, path, &to)?;
            }
            relocated => relocated?,
        }
        disarm(&to);
        Ok(to)
    }

    /// A free place that shows where a thing came from, as far as names can that a task made up.
    fn place(&self, path: &Path) -> io::Result<PathBuf> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let flat: String = path
            .to_string_lossy()
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') {
                    c
                } else {
                    '_'
                }
            })
            .take(120)
            .collect();
        let free = (0..u32::MAX)
            .map(|number| self.folder.join(format!("{number}-{flat}")))
            .find(|place| fs::symlink_metadata(place).is_err());
        free.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }
}

/// Moves `path` out of `tree` to `to`, where nothing is.
fn relocate(tree: &Tree, path: &Path, to: &Path) -> io::Result<()> {
    let (folder, name) = tree.parent(path)?;
    match renameat(&folder, name, CWD, to) {
        Err(Errno::XDEV) => {
            copy(tree, path, to)?;
            unlinkat(&folder, name, AtFlags::empty()).or_else(|error| {
                fs::remove_file(to)?;
                Err(error.into())
            })
        }
        renamed => Ok(renamed?),
    }
}

/// Takes the permission to execute it away. What is somebody else's keeps it, and is out of the way all the same.
fn disarm(at: &Path) {
    let disarmed = fs::symlink_metadata(at).and_then(|found| {
        if found.is_file() {
            fs::set_permissions(at, Permissions::from_mode(0o600))
        } else {
            Ok(())
        }
    });
    if let Err(error) = disarmed {
        tracing::warn!(path = %at.display(), %error, "what was moved away may still be executable");
    }
}

/// Writes back what a configuration said.
pub(super) fn restore(tree: &Tree, path: &Path, before: &Leaf) -> io::Result<()> {
    if before.text.is_empty() || before.facts.kind != Kind::File {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (folder, name) = tree.parent(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(
        &folder,
        name,
        flags,
        Mode::from_raw_mode(before.facts.mode & 0o666),
    )?);
    file.write_all(before.text.as_bytes())
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
                && tree
                    .grant(folder.parent().unwrap_or(Path::new("")), CHANGE)
                    .is_ok()
            {
                let _ = unlinkat(&parent, name, AtFlags::REMOVEDIR);
            }
        }
    }
}

/// A file or link on another file system.
fn copy(tree: &Tree, path: &Path, to: &Path) -> io::Result<()> {
    let facts = tree.facts(path)?.ok_or(io::ErrorKind::NotFound)?;
    match facts.kind {
        Kind::File if facts.size <= LARGEST_COPY => {
            let mut original = tree.file(path)?;
            let mut copy = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(to)?;
            io::copy(&mut original, &mut copy).map(drop)
        }
        Kind::Link => {
            let (folder, name) = tree.parent(path)?;
            let target = readlinkat(&folder, name, Vec::new())?;
            Ok(rustix::fs::symlink(target, to)?)
        }
        // Of a pipe or a socket nothing is left to keep.
        Kind::Special => File::create_new(to).map(drop),
        Kind::File | Kind::Folder => Err(Errno::XDEV.into()),
    }
}
