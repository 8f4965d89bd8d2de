//! What an apply is about to do, on disk before it does it.

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

pub(super) const NAME: &str = "journal.json";

/// How far an apply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// The tree is untouched, or as it was again: what is copied beside it only has to go.
    Staging,
    /// Everything is copied. From here on it is finished, whoever does it.
    Committing,
    /// The files are there, and repositories are written to: that is finished, and not undone.
    Importing,
    /// A step failed: what was done is being undone.
    Undoing,
    /// The tree is as it should be; what is left is removed.
    Done,
}

/// A change of one path of the tree, which may be a whole folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    #[serde(with = "path_text")]
    pub(super) path: PathBuf,
    /// Names what is put there, and what was there, in the stage.
    pub(super) number: usize,
    /// Whether something is put there; else what is there is taken away.
    pub(super) puts: bool,
    /// What is there before; `None` where there is nothing.
    pub(super) expects: Option<InodeStamp>,
    /// What is put, once all of it is copied.
    pub(super) after: Option<ContentFingerprint>,
    /// The same of what is there before.
    pub(super) before: Option<ContentFingerprint>,
    /// Whether a link to the former content can be kept while the new one takes its place at once.
    pub(super) swaps: bool,
}

/// What an apply is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    pub(super) version: u32,
    #[serde(with = "path_text")]
    pub(super) tree: PathBuf,
    /// The folder in the tree where new content waits and former content is kept.
    pub(super) stage: String,
    pub(super) phase: Phase,
    /// The changes that stay in the copy for another apply.
    pub(super) keeps: Vec<Kept>,
    /// Whether what a task did in a repository outside of the tree stays too.
    pub(super) keeps_outside: bool,
    pub(super) steps: Vec<Step>,
    /// The repositories that are imported.
    pub(super) repositories: Vec<PathText>,
    /// What refs are called that cannot have their own names.
    pub(super) run: String,
    /// Settings of git that a person asked for, each with its repository.
    pub(super) settings: Vec<(PathText, WaitingSetting)>,
}

/// What this program writes and understands.
pub(super) const VERSION: u32 = 4;

pub(super) fn exists(folder: &Path) -> bool {
    folder.join(NAME).exists()
}

impl Journal {
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, WorkspaceError> {
        let path = folder.join(NAME);
        let journal: Option<Self> = record::read(&path)?;
        if journal.as_ref().is_some_and(|journal| journal.version != VERSION) {
            return Err(WorkspaceError::unreadable(&path, "another version of this program wrote it"));
        }
        Ok(journal)
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), WorkspaceError> {
        record::write_durably(&folder.join(NAME), self)
    }

    pub(super) fn advance(&mut self, phase: Phase, folder: &Path) -> Result<(), WorkspaceError> {
        self.phase = phase;
        self.write(folder)
    }

    /// The settings that a person asked for.
    pub(super) fn taken(&self) -> Vec<WaitingSetting> {
        let taken = self.settings.iter().cloned();
        taken.map(|(common, setting)| WaitingSetting { common: common.0, ..setting }).collect()
    }

    pub(super) fn remove(folder: &Path) -> Result<(), WorkspaceError> {
        let path = folder.join(NAME);
        or_absent(fs::remove_file(&path)).map_err(|source| WorkspaceError::new("remove", &path, source))
    }
}
