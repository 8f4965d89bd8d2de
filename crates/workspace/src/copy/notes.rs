//! The records of a copy in its folder: its beginning, and the entries that existed then.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::{FileLock, or_absent};
use serde::{Deserialize, Serialize};

use super::super::error::WorkspaceError;
use super::super::git_view::git_changes;
use super::super::names::Names;
use super::super::overlay::{self, UPPER, WORK};
use super::super::path_text::{self, PathText};
use super::super::record;
use super::super::trash;
use super::keep::{self, Kept};
use super::places::GIT;
use super::{journal, repositories};

/// The version of these records: 3 contains the state of repositories.
const VERSION: u32 = 3;
pub(super) const BEGUN: &str = "begun.json";
pub(super) const LOCK: &str = "lock";
/// Exists from the moment when a task gets the copy until its container is known to be gone.
pub(super) const TAKEN: &str = "taken";

/// The beginning of a copy, and its tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begun {
    pub(super) version: u32,
    #[serde(with = "path_text")]
    pub(super) tree: PathBuf,
    /// Entries that change on the host after this time changed since the beginning.
    pub(super) since: (i64, u32),
    /// Paths that had changed on both sides before.
    #[serde(default)]
    pub(super) conflicts: Vec<PathText>,
}

/// Discards everything except the lock: entries that cannot be removed are ignored, and wait for
/// the next time.
pub(super) fn forget(folder: &Path) -> Result<(), WorkspaceError> {
    trash::put(folder, &[UPPER, WORK, GIT])?;
    remove_notes(folder)?;
    if let Err(error) = trash::empty(folder) {
        tracing::warn!(%error, "failed to remove an unused part of a copy");
    }
    Ok(())
}

/// Removes the records of a copy.
pub(super) fn remove_notes(folder: &Path) -> Result<(), WorkspaceError> {
    // The journal comes last: while it exists, the next command continues here.
    for path in [folder.join(BEGUN), folder.join(TAKEN), Names::path(folder), folder.join(journal::NAME)] {
        or_absent(fs::remove_file(&path)).map_err(|source| WorkspaceError::new("remove", &path, source))?;
    }
    repositories::remove(folder)
        .and_then(|()| git_changes::remove(folder))
        .map_err(|source| WorkspaceError::new("clean up in", folder, source))
}

pub(super) fn lock(folder: &Path, tree: &Path) -> Result<FileLock, WorkspaceError> {
    let path = folder.join(LOCK);
    FileLock::try_exclusive(&path)
        .map_err(|source| WorkspaceError::new("lock", &path, source))?
        .ok_or_else(|| WorkspaceError::Busy { tree: tree.to_owned() })
}

pub(super) fn begin(tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    forget(folder)?;
    overlay::make(tree, folder)
}

/// Keeps the changes `kept` in the copy, over the current tree, and its changes in a repository
/// outside if `keeps_outside` is set.
pub(super) fn keep(
    kept: &[Kept],
    keeps_outside: bool,
    tree: &Path,
    folder: &Path,
) -> Result<(), WorkspaceError> {
    keep::only(kept, folder, UPPER)?;
    if !keeps_outside {
        trash::put(folder, &[GIT])?;
    }
    note_beginning(tree, folder, now(folder)?, keep::conflicts(kept))?;
    let taken = folder.join(TAKEN);
    or_absent(fs::remove_file(&taken)).map_err(|source| WorkspaceError::new("remove", &taken, source))?;
    if let Err(error) = trash::empty(folder) {
        tracing::warn!(%error, "failed to remove a part of a copy that is no longer needed");
    }
    Ok(())
}

/// The present time by the kernel's clock for files, which is not the one that programs read.
pub(super) fn now(folder: &Path) -> Result<(i64, u32), WorkspaceError> {
    let clock = folder.join("clock");
    let failed = |source| WorkspaceError::new("prepare a copy in", folder, source);
    let now = File::create(&clock).and_then(|file| file.metadata()).map_err(failed)?;
    fs::remove_file(&clock).map_err(failed)?;
    Ok((now.ctime(), u32::try_from(now.ctime_nsec()).unwrap_or(0)))
}

/// Records that entries which change on the host after `since` changed since the copy began; so did
/// `conflicts`.
pub(super) fn note_beginning(
    tree: &Path,
    folder: &Path,
    since: (i64, u32),
    conflicts: BTreeSet<PathBuf>,
) -> Result<(), WorkspaceError> {
    Names::write(tree, folder)?;
    let begun = Begun {
        version: VERSION,
        tree: tree.to_owned(),
        since,
        conflicts: conflicts.into_iter().map(PathText).collect(),
    };
    repositories::note(tree, folder)?;
    write_begun(&begun, folder)
}

pub(super) fn write_begun(begun: &Begun, folder: &Path) -> Result<(), WorkspaceError> {
    record::write(&folder.join(BEGUN), begun)
}

pub(super) fn read_begun(folder: &Path) -> Result<Option<Begun>, WorkspaceError> {
    let path = folder.join(BEGUN);
    let begun: Option<Begun> = record::read(&path)?;
    if begun.as_ref().is_some_and(|begun| begun.version != VERSION) {
        return Err(WorkspaceError::unreadable(
            &path,
            "another version of this program wrote it; apply or discard the copy with that, or remove its folder",
        ));
    }
    Ok(begun)
}
