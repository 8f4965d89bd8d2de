//! A task's changes in repositories in the form for callers, and the settings among them that wait
//! for a person's approval.

use std::path::{Path, PathBuf};

use sandbox_files::or_absent;
use sandbox_host_git::{Left, Report};
use serde::{Deserialize, Serialize};

use super::super::error::WorkspaceError;
use super::super::path_text::PathText;
use super::super::record;
use super::super::tampered::path_text;

const NAME: &str = "settings.json";
/// The maximum number of waiting settings.
const MOST: usize = 10_000;

/// A task's changes in repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GitChanges {
    /// Host repositories in which something changed.
    pub repositories: Vec<RepositoryChanges>,
    /// Entries that make a folder a git work tree or repository, which are never imported: paths in
    /// the tree.
    pub left: Vec<Left>,
    /// Waiting settings of runs that were applied before.
    pub settings: Vec<WaitingSetting>,
    /// Repositories whose import failed or is incomplete: the task's changes are kept.
    pub failed: Vec<FailedImport>,
}

/// A host repository into which a task's changes could not be imported, or only in part. The next
/// sweep tries again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedImport {
    /// Its folder on the host.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// The cause.
    pub problem: String,
    /// The host folder that keeps the task's changes.
    #[serde(serialize_with = "path_text")]
    pub kept_in: PathBuf,
}

/// A task's changes in one host repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RepositoryChanges {
    /// Its folder: in a copy, relative to the tree, and `.git` for one stored outside a linked work
    /// tree; otherwise on the host.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// The changes that are and are not imported.
    pub report: Report,
    /// Whether it waits in the copy because git recorded a withheld file.
    pub waits: bool,
}

/// A git setting that a task changed, and that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WaitingSetting {
    /// The repository's folder in the tree, as text.
    pub repository: String,
    /// Its name in the form that `git config` takes.
    pub key: String,
    /// The host's values.
    pub old: Vec<String>,
    /// The task's values.
    pub new: Vec<String>,
    /// The folder of the host's repository.
    #[serde(skip)]
    pub(crate) common: PathBuf,
}

impl GitChanges {
    /// Whether there is nothing worth reporting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty()
            && self.left.is_empty()
            && (self.settings.is_empty() && self.failed.is_empty())
    }

    /// These changes followed by `other`.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        let Self { repositories, left, settings, failed } = other;
        self.repositories.extend(repositories);
        self.left.extend(left);
        self.settings.extend(settings);
        self.failed.extend(failed);
        self
    }
}

impl RepositoryChanges {
    /// Whether there is nothing to report: git only refreshed its own records.
    pub(crate) fn is_empty(&self) -> bool {
        let Report { settings, left, hints, refs, .. } = &self.report;
        self.report.is_empty()
            && (settings.is_empty() && left.is_empty() && hints.is_empty() && refs.is_empty())
            && !self.report.more_left
    }

    /// Its settings that are not imported automatically.
    pub(crate) fn waiting(&self, common: &Path) -> Vec<WaitingSetting> {
        let staying = self.report.settings.iter().filter(|change| change.stays.is_some());
        let waiting = staying.map(|change| WaitingSetting {
            repository: self.path.display().to_string(),
            key: change.key.clone(),
            old: change.old.clone(),
            new: change.new.clone(),
            common: common.to_owned(),
        });
        waiting.take(MOST).collect()
    }
}

impl WaitingSetting {
    fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.common == other.common
    }
}

/// The settings that wait in `folder`.
pub(crate) fn read(folder: &Path) -> Result<Vec<WaitingSetting>, WorkspaceError> {
    let kept: Vec<(PathText, WaitingSetting)> = record::read(&folder.join(NAME))?.unwrap_or_default();
    Ok(kept.into_iter().map(|(common, setting)| WaitingSetting { common: common.0, ..setting }).collect())
}

/// `old` with `new`, which override those of the same name.
pub(crate) fn merged(old: Vec<WaitingSetting>, new: &[WaitingSetting]) -> Vec<WaitingSetting> {
    let is_old = |setting: &WaitingSetting| !new.iter().any(|other| other.is_same(setting));
    old.into_iter().filter(is_old).chain(new.iter().cloned()).take(MOST).collect()
}

/// Stores `settings` in `folder`, except for those in `taken`.
pub(crate) fn keep(
    settings: &[WaitingSetting],
    taken: &[WaitingSetting],
    folder: &Path,
) -> Result<(), WorkspaceError> {
    let path = folder.join(NAME);
    let left = settings.iter().filter(|one| !taken.iter().any(|it| it.is_same(one)));
    let left: Vec<_> = left.map(|setting| (PathText(setting.common.clone()), setting)).collect();
    if left.is_empty() {
        return or_absent(std::fs::remove_file(&path))
            .map_err(|source| WorkspaceError::new("remove", &path, source));
    }
    record::write_durably(&path, &left)
}

/// Whether settings wait in `folder`.
pub(crate) fn are_there(folder: &Path) -> bool {
    folder.join(NAME).exists()
}

/// Removes the stored settings.
pub(crate) fn remove(folder: &Path) -> std::io::Result<()> {
    or_absent(std::fs::remove_file(folder.join(NAME)))
}
