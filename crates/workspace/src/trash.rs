//! Removes copies and views of repositories.
//!
//! A task's changes are first renamed, which is atomic, and then removed, which takes time and may
//! fail: half a copy is never mistaken for a copy.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::Path;

use rand::RngExt as _;
use sandbox_files::or_absent;

use super::error::WorkspaceError;
use super::removal;

/// The prefix of folders that are only waiting to be removed.
const PREFIX: &str = "discarded-";

/// A name for a folder that is only waiting to be removed, or that need not be kept if nobody
/// removes it.
pub(crate) fn name() -> String {
    format!("{PREFIX}{:016x}", rand::rng().random::<u64>())
}

/// Renames the existing folders `names` in `folder` as trash.
pub(crate) fn put(folder: &Path, names: &[&str]) -> Result<(), WorkspaceError> {
    for name in names {
        let path = folder.join(name);
        let away = folder.join(self::name());
        or_absent(fs::rename(&path, away))
            .map_err(|source| WorkspaceError::new("put away", &path, source))?;
    }
    Ok(())
}

/// Removes the trash in `folder`.
pub(crate) fn empty(folder: &Path) -> Result<(), WorkspaceError> {
    let failed = |source| WorkspaceError::new("clean up in", folder, source);
    let opened = File::open(folder).map_err(failed)?;
    for name in waiting(folder).map_err(failed)? {
        removal::remove(&opened, &name)
            .map_err(|source| WorkspaceError::new("remove", &folder.join(&name), source))?;
    }
    Ok(())
}

fn waiting(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if is_trash(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether `name` belongs to a folder that is only waiting to be removed.
pub(crate) fn is_trash(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}
