//! The rest of a copy after an apply: the withheld changes, over the current tree.
//!
//! **Invariant.** No applied change remains in the upper layer: there it would hide the host's
//! later changes, and as a link to the tree's own file let the next task write through to it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use rustix::fs::renameat;

use sandbox_files::or_absent;
use sandbox_files::tree::Tree;

use super::super::error::WorkspaceError;
use super::super::path_text;
use super::super::trash;
use super::change::{Change, ChangeKind, Withheld};

/// The upper layer that replaces the other.
const NEXT: &str = "upper-next";

/// A change that remains in the copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    #[serde(with = "path_text")]
    path: PathBuf,
    /// Whether the task removed it.
    is_removal: bool,
    /// Whether it changed on the host too since the task began.
    is_conflict: bool,
}

impl Kept {
    /// The changes in `withheld` that can be applied later; a device, pipe or socket never can.
    pub(super) fn of(withheld: &[Change]) -> Vec<Self> {
        let kept = withheld.iter().filter(|change| change.withheld != Some(Withheld::Special));
        kept.map(|change| Self {
            path: change.path.clone(),
            is_removal: change.kind == ChangeKind::Removed,
            is_conflict: change.conflict,
        })
        .collect()
    }

    /// All of the task's changes at `path`.
    pub(super) fn all_at(path: PathBuf) -> Self {
        Self { path, is_removal: false, is_conflict: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// The paths in `kept` that changed on the host too.
pub(super) fn conflicts(kept: &[Kept]) -> BTreeSet<PathBuf> {
    let conflicts = kept.iter().filter(|kept| kept.is_conflict);
    conflicts.map(|kept| kept.path.clone()).collect()
}

/// Removes everything except `kept` from the upper layer `name` of `folder`. Can be repeated from
/// any point of interruption.
pub(super) fn only(kept: &[Kept], folder: &Path, name: &str) -> Result<(), WorkspaceError> {
    let (upper, next) = (folder.join(name), folder.join(NEXT));
    if upper.exists() {
        let failed = |source| WorkspaceError::new("clean up", &upper, source);
        move_all(kept, &upper, &next).map_err(failed)?;
        trash::put(folder, &[name])?;
    }
    or_absent(fs::rename(&next, &upper)).map_err(|source| WorkspaceError::new("rename", &next, source))
}

fn move_all(kept: &[Kept], upper: &Path, next: &Path) -> io::Result<()> {
    let from = Tree::open(upper)?;
    match DirBuilder::new().mode(0o700).create(next) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made?,
    }
    let to = Tree::open(next)?;
    let top = fs::metadata(upper)?;
    if rustix::process::geteuid().is_root() {
        chown(next, Some(top.uid()), Some(top.gid()))?;
    }
    fs::set_permissions(next, Permissions::from_mode(top.mode() & 0o7777))?;
    let mut moved: Option<&Path> = None;
    for kept in kept {
        // Moving a folder also moves its content.
        if moved.is_some_and(|folder| kept.path.starts_with(folder)) {
            continue;
        }
        match move_one(&from, &to, kept) {
            Ok(()) => moved = Some(&kept.path),
            Err(error) => {
                tracing::warn!(path = ?kept.path, %error, "failed to keep a withheld change");
            }
        }
    }
    Ok(())
}

fn move_one(from: &Tree, to: &Tree, kept: &Kept) -> io::Result<()> {
    let path = kept.path.as_path();
    if to.facts(path)?.is_some() {
        return Ok(());
    }
    // The folders are merged with those of the host.
    to.make_folders(path.parent().unwrap_or(Path::new("")), from)?;
    match from.facts(path)? {
        Some(_) => {
            let ((source, name), (target, _)) = (from.parent(path)?, to.parent(path)?);
            Ok(renameat(&source, name, &target, name)?)
        }
        // Its former parent folder hid the host's entry.
        None if kept.is_removal => to.hide(path),
        None => Err(io::ErrorKind::NotFound.into()),
    }
}
