//! What a task did in repositories, as a caller sees it, and the settings of it that wait until a person asks for them.

use std::path::{Path, PathBuf};

use sandbox_files::or_absent;
use sandbox_host_git::{Left, Report};
use serde::{Deserialize, Serialize};

use super::super::error::WorkspaceError;
use super::super::path_text::PathText;
use super::super::record;
use super::super::tampered::path_text;

const NAME: &str = "settings.json";
/// Settings that wait.
const MOST: usize = 10_000;

/// What a task did in repositories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GitChanges {
    /// Repositories of the host in which something changed.
    pub repositories: Vec<RepositoryChanges>,
    /// What makes a folder a work tree or a repository of git's, which never comes: paths in the tree.
    pub left: Vec<Left>,
    /// Settings of runs that were applied before.
    pub settings: Vec<WaitingSetting>,
    /// Repositories into which nothing, or not all, could be brought: what the task did there is kept.
    pub failed: Vec<FailedImport>,
}

/// A repository of the host into which nothing, or not all, could be brought of what a task did in its view of it. The next sweep tries
/// it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedImport {
    /// Its folder on the host.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// Why.
    pub problem: String,
    /// The folder of the host where what the task did is kept.
    #[serde(serialize_with = "path_text")]
    pub kept_in: PathBuf,
}

/// What a task did in one repository of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RepositoryChanges {
    /// Its folder: of a copy in the tree, and `.git` for the one that is kept outside of a linked work tree; else on the host.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// What comes, or came, and what stays behind.
    pub report: Report,
    /// Whether it waits in the copy, because git recorded a file that is held back.
    pub waits: bool,
}

/// A setting of git that a task changed, and that stayed behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct WaitingSetting {
    /// The repository's folder in the tree, as text.
    pub repository: String,
    /// Its name, as `git config` takes it.
    pub key: String,
    /// What the host had.
    pub old: Vec<String>,
    /// What the task gave it.
    pub new: Vec<String>,
    /// The folder of the host's repository.
    #[serde(skip)]
    pub(crate) common: PathBuf,
}

impl GitChanges {
    /// Whether a task did nothing there that is worth a word.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.repositories.is_empty()
            && self.left.is_empty()
            && (self.settings.is_empty() && self.failed.is_empty())
    }

    /// The same with `other` after it.
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
    /// Whether nothing is to be said of it: git looked, and wrote down what it saw.
    pub(crate) fn is_empty(&self) -> bool {
        let Report { settings, left, hints, refs, .. } = &self.report;
        self.report.is_empty()
            && (settings.is_empty() && left.is_empty() && hints.is_empty() && refs.is_empty())
            && !self.report.more_left
    }

    /// Its settings that do not come by themselves.
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

/// Those that wait in `folder`.
pub(crate) fn read(folder: &Path) -> Result<Vec<WaitingSetting>, WorkspaceError> {
    let kept: Vec<(PathText, WaitingSetting)> = record::read(&folder.join(NAME))?.unwrap_or_default();
    Ok(kept.into_iter().map(|(common, setting)| WaitingSetting { common: common.0, ..setting }).collect())
}

/// `old` with `new`, which stand for those of the same name.
pub(crate) fn merged(old: Vec<WaitingSetting>, new: &[WaitingSetting]) -> Vec<WaitingSetting> {
    let is_old = |setting: &WaitingSetting| !new.iter().any(|other| other.is_same(setting));
    old.into_iter().filter(is_old).chain(new.iter().cloned()).take(MOST).collect()
}

/// Keeps `settings` in `folder`, but for those of `taken`.
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

/// Whether some wait in `folder`.
pub(crate) fn are_there(folder: &Path) -> bool {
    folder.join(NAME).exists()
}

/// Removes what is kept here.
pub(crate) fn remove(folder: &Path) -> std::io::Result<()> {
    or_absent(std::fs::remove_file(folder.join(NAME)))
}
