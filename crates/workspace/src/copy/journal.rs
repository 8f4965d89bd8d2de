//! The journal of an apply, written to disk before each action.

use std::fs;
use std::path::{Path, PathBuf};

use sandbox_files::or_absent;
use sandbox_files::tree::InodeStamp;
use serde::{Deserialize, Serialize};

use super::super::error::WorkspaceError;
use super::super::fingerprint::ContentFingerprint;
use super::super::git_view::WaitingSetting;
use super::super::path_text::{self, PathText};
use super::super::record;
use super::keep::Kept;
use super::seal::Seal;

pub(super) const NAME: &str = "journal.json";

/// The progress of an apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// The tree is unchanged, or restored: the copies next to it only have to be removed.
    Staging,
    /// Everything is copied. From here on the apply is finished, by this command or a later one.
    Committing,
    /// The files are in place, and repositories are being written: that is finished, not undone.
    Importing,
    /// A step failed: the finished ones are being undone.
    Undoing,
    /// The tree is in its final state; the rest is removed.
    Done,
}

/// A change of one path of the tree, which may be a whole folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    #[serde(with = "path_text")]
    pub(super) path: PathBuf,
    /// The names of the new and the former entry in the stage.
    pub(super) number: usize,
    /// Whether an entry is placed; otherwise the existing one is removed.
    pub(super) puts: bool,
    /// The former entry; `None` if there is none.
    pub(super) expects: Option<InodeStamp>,
    /// The new entry, once all of it is copied.
    pub(super) after: Option<ContentFingerprint>,
    /// The protected paths in it, each with all below, in order.
    pub(super) protected: Vec<PathText>,
    /// What is placed, by the copy: a task can write to the stage.
    pub(super) seal: Option<Seal>,
    /// The former entry, if that is protected: it waits in the stage, too.
    pub(super) former: Option<Seal>,
    /// The fingerprint of the former entry.
    pub(super) before: Option<ContentFingerprint>,
    /// Whether a link to the former content can be kept while the new content replaces it
    /// atomically.
    pub(super) swaps: bool,
}

/// The plan of an apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    pub(super) version: u32,
    #[serde(with = "path_text")]
    pub(super) tree: PathBuf,
    /// The folder in the tree where new content waits and former content is kept.
    pub(super) stage: String,
    pub(super) phase: Phase,
    /// The changes that remain in the copy for another apply.
    pub(super) keeps: Vec<Kept>,
    /// Whether a task's changes in a repository outside the tree remain too.
    pub(super) keeps_outside: bool,
    pub(super) steps: Vec<Step>,
    /// The repositories that are imported.
    pub(super) repositories: Vec<PathText>,
    /// The folder for refs that cannot have their own names.
    pub(super) run: String,
    /// Git settings that a person requested, each with its repository.
    pub(super) settings: Vec<(PathText, WaitingSetting)>,
}

/// The version that this program writes and reads.
pub(super) const VERSION: u32 = 5;

impl Step {
    /// Whether `path`, relative to the tree, is protected.
    pub(super) fn is_protected(&self, path: &Path) -> bool {
        let is_named = |path: &Path| self.protected.binary_search_by(|named| named.0.as_path().cmp(path));
        path.ancestors().any(|part| is_named(part).is_ok())
    }
}

pub(super) fn exists(folder: &Path) -> bool {
    folder.join(NAME).exists()
}

impl Journal {
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, WorkspaceError> {
        let path = folder.join(NAME);
        match record::read::<Self>(&path) {
            Ok(Some(journal)) if journal.version == VERSION => Ok(Some(journal)),
            Ok(None) => Ok(None),
            // Other versions have other fields, too.
            Ok(Some(_)) | Err(WorkspaceError::Unreadable { .. }) => Err(WorkspaceError::unreadable(
                &path,
                "an apply was interrupted, and another version of this program recorded it: finish it with that \
                 version, or discard the copy; what was applied so far remains, and what it replaced is in the \
                 work tree's folder `.sandbox-apply-…`",
            )),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), WorkspaceError> {
        record::write_durably(&folder.join(NAME), self)
    }

    pub(super) fn advance(&mut self, phase: Phase, folder: &Path) -> Result<(), WorkspaceError> {
        self.phase = phase;
        self.write(folder)
    }

    /// The settings that a person requested.
    pub(super) fn taken(&self) -> Vec<WaitingSetting> {
        let taken = self.settings.iter().cloned();
        taken.map(|(common, setting)| WaitingSetting { common: common.0, ..setting }).collect()
    }

    pub(super) fn remove(folder: &Path) -> Result<(), WorkspaceError> {
        let path = folder.join(NAME);
        or_absent(fs::remove_file(&path)).map_err(|source| WorkspaceError::new("remove", &path, source))
    }
}
