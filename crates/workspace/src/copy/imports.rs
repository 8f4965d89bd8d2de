//! The repositories' part of an apply: prepared before anything is written, and committed after the
//! files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::tree::Tree;
use sandbox_host_git::{Error, HostRepository, Import, Recorded, RunName};

use super::super::error::WorkspaceError;
use super::super::git_view::{Opened, RepositoryChanges, WaitingSetting, git_changes, run};
use super::super::inventory::is_in_git;
use super::change::{Change, Withheld};
use super::journal::{Journal, Phase};
use super::repositories::Repositories;

/// The changes to write to repositories.
#[derive(Default)]
pub(super) struct Imports<'a> {
    all: Vec<(&'a Opened<'a>, Import<'a>)>,
    hints: BTreeMap<PathBuf, String>,
}

/// A failed import.
#[derive(Debug)]
pub(super) struct Failed {
    /// Whether a part of it was written: it is continued, and never undone.
    pub(super) is_begun: bool,
    pub(super) error: WorkspaceError,
}

impl<'a> Imports<'a> {
    /// Reads and checks the task's changes in each.
    pub(super) fn prepare(
        opened: &'a [Opened<'a>],
        run: &RunName,
        folder: &Path,
    ) -> Result<Self, WorkspaceError> {
        let mut all = Vec::new();
        for opened in opened {
            let import = opened.prepare(run, folder)?;
            if !changes(opened, &import).is_empty() {
                all.push((opened, import));
            }
        }
        Ok(Self { all, hints: BTreeMap::new() })
    }

    fn recorded(&self, path: &Path) -> Option<&Recorded> {
        let mut all = self.all.iter();
        all.find(|(opened, _)| opened.known.path() == path).map(|(_, import)| import.recorded())
    }

    /// The changes of each repository, of which those in `waiting` are not imported.
    pub(super) fn reports(&self, waiting: &BTreeSet<PathBuf>) -> Vec<RepositoryChanges> {
        let report = |(opened, import): &(&Opened<'_>, Import<'_>)| {
            let mut changes = changes(opened, import);
            changes.waits = waiting.contains(&changes.path);
            changes.report.hints.extend(self.hints.get(&changes.path).cloned());
            changes
        };
        self.all.iter().map(report).collect()
    }

    pub(super) fn is_written_later(&self, path: &Path) -> bool {
        self.hints.contains_key(path)
    }

    /// The imports that do not wait.
    pub(super) fn without(mut self, waiting: &BTreeSet<PathBuf>) -> Self {
        self.all.retain(|(opened, _)| !waiting.contains(opened.known.path()));
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.all.iter().map(|(opened, _)| opened.known.path())
    }

    /// Settings that will wait.
    pub(super) fn waiting(&self) -> Vec<WaitingSetting> {
        let of = |(opened, import): &(&Opened<'_>, Import<'_>)| {
            changes(opened, import).waiting(opened.known.common())
        };
        self.all.iter().flat_map(of).collect()
    }

    /// Writes all imports, and the settings `taken`, to repositories of `host` and outside it;
    /// stores the other settings in `folder`.
    pub(super) fn commit(
        self,
        host: &Tree,
        taken: &[WaitingSetting],
        folder: &Path,
    ) -> Result<Vec<RepositoryChanges>, Failed> {
        let begun = |error| Failed { is_begun: true, error };
        let waiting = self.waiting();
        let mut done = Vec::new();
        for (opened, import) in self.all {
            let path = opened.known.path();
            let report = import.commit().map_err(|error| failed(path, error, !done.is_empty()))?;
            done.push(RepositoryChanges { path: path.to_owned(), report, waits: false });
        }
        for setting in taken {
            let path = Path::new(&setting.repository);
            let failed = |error| failed(path, error, true);
            let tree = reach(host, &setting.common);
            let tree = tree.map_err(|source| begun(WorkspaceError::new("open", &setting.common, source)))?;
            let repository = HostRepository::of(tree, None).map_err(failed)?;
            repository.set(&setting.key, &setting.new).map_err(failed)?;
        }
        let all = git_changes::read(folder).map_err(begun)?;
        git_changes::keep(&git_changes::merged(all, &waiting), taken, folder).map_err(begun)?;
        Ok(done)
    }
}

/// Opens the common folder `common` of a repository. In `tree`, it follows no link: a task that
/// works on the tree itself can create one.
fn reach(tree: &Tree, common: &Path) -> io::Result<Tree> {
    match common.strip_prefix(tree.path()) {
        Ok(inner) => tree.inner(inner),
        Err(_) => Tree::open(common),
    }
}

fn changes(opened: &Opened<'_>, import: &Import<'_>) -> RepositoryChanges {
    let path = opened.known.path().to_owned();
    RepositoryChanges { path, report: import.report().clone(), waits: false }
}

fn failed(path: &Path, error: Error, is_begun: bool) -> Failed {
    let path = path.to_owned();
    match error {
        Error::Unfinished { source } => {
            Failed { is_begun: true, error: WorkspaceError::Unfinished { path, source } }
        }
        error if is_begun => {
            Failed { is_begun, error: WorkspaceError::Unfinished { path, source: Box::new(error) } }
        }
        error => Failed { is_begun, error: WorkspaceError::repository("write to", &path, error) },
    }
}

/// Repeats the imports of `journal` after a crash.
pub(super) fn again(journal: &Journal, folder: &Path) -> Result<Vec<RepositoryChanges>, Failed> {
    let is_begun = journal.phase == Phase::Importing;
    let of_phase = |error| Failed { is_begun, error };
    let known = Repositories::read(folder).map_err(of_phase)?;
    let is_wanted = |path: &Path| journal.repositories.iter().any(|wanted| wanted.0 == path);
    let host = Tree::open(&journal.tree);
    let host = host.map_err(|source| of_phase(WorkspaceError::new("open", &journal.tree, source)))?;
    let opened = known.opened(&host, folder, is_wanted).map_err(of_phase)?;
    let imports = Imports::prepare(&opened, &run(&journal.run), folder).map_err(of_phase)?;
    imports.commit(&host, &journal.taken(), folder)
}

/// Withholds all of a work tree in which git recorded a withheld change: a merge or a switch
/// changes files, the index and the target of `HEAD` together. The same holds for one in which git
/// recorded a protected file in a version that the host does not have, whatever its own file
/// contains by now: the host's git would write that with `git stash` or `git checkout`. Returns the
/// repositories that wait with it.
///
/// If one of those files were withheld and the rest applied, the host's git would treat the old
/// content as a change by the user.
pub(super) fn hold_recorded(
    changes: &mut [Change],
    opened: &[Opened<'_>],
    imports: &mut Imports<'_>,
    is_written_later: impl Fn(&Path, &Recorded) -> Option<String>,
) -> BTreeSet<PathBuf> {
    let mut waiting = BTreeSet::new();
    for repository in opened {
        let Some(work_tree) = repository.known.work_tree() else {
            continue;
        };
        let path = repository.known.path();
        let is_held = |change: &&Change| {
            change.withheld.is_some() && change.path.starts_with(work_tree) && !is_in_git(&change.path)
        };
        let held: Vec<PathBuf> = changes.iter().filter(is_held).map(|change| change.path.clone()).collect();
        let is_torn = !held.is_empty()
            && repository.recorded().is_none_or(|recorded| {
                let mut recorded = recorded.into_iter().map(|path| work_tree.join(path));
                recorded.any(|path| held.iter().any(|held| path.starts_with(held)))
            });
        if !is_torn {
            let later = imports.recorded(path).and_then(|recorded| is_written_later(work_tree, recorded));
            let Some(later) = later else { continue };
            imports.hints.insert(path.to_owned(), later);
        }
        waiting.insert(path.to_owned());
        for change in changes.iter_mut() {
            if change.withheld.is_none() && change.path.starts_with(work_tree) {
                change.withheld = Some(Withheld::Repository);
            }
        }
    }
    waiting
}
