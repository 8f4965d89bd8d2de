//! Repositories of which tasks have a view: what each was when the task began, and what comes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Kind, Tree};
use sandbox_host_git::{Error, HostRepository, Import, Limits, RunName, Snapshot, View};
use serde::{Deserialize, Serialize};

use super::super::error::WorkspaceError;
use super::super::git_follow::{Pointer, pointer};
use super::super::path_text::PathText;
use super::super::role::text;
use super::super::trash;
use super::git_changes::RepositoryChanges;

/// A repository of the host, and what it was when a task got a view of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    path: PathText,
    common: PathText,
    /// Of a linked work tree: its folder in `worktrees`.
    linked: Option<PathText>,
    /// Its work tree, in the tree.
    work_tree: Option<PathText>,
    snapshot: Snapshot,
}

/// A repository in a tree, and its work tree in that.
pub(crate) type Found = (PathBuf, Option<PathBuf>);

/// A repository that a task may have changed, opened on both sides.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    pub(crate) known: &'a Known,
    host: HostRepository,
    view: View,
}

impl Known {
    /// What the repositories `found` of `tree` are: `main`, which has to be understood, and others, of which nothing comes that are not.
    pub(crate) fn all(tree: &Path, found: Vec<Found>, main: &Path) -> Result<Vec<Self>, WorkspaceError> {
        let mut all = Vec::new();
        for (path, work_tree) in found {
            match Self::of(tree, path.clone(), work_tree) {
                Ok(known) => all.push(known),
                Err(source) if path == main => {
                    return Err(WorkspaceError::repository("make a view of", &path, source));
                }
                Err(error) => {
                    tracing::warn!(path = %path.display().to_string().escape_debug(), %error, "what the task does in this repository will not come: it is not understood");
                }
            }
        }
        Ok(all)
    }

    /// What the repository at `path` of `tree` is, whose work tree is the folder `work_tree` of that.
    fn of(tree: &Path, path: PathBuf, work_tree: Option<PathBuf>) -> Result<Self, Error> {
        let common = tree.join(&path);
        let snapshot = snapshot(&common, None)?;
        let (path, common) = (PathText(path), PathText(common));
        Ok(Self { path, common, linked: None, work_tree: work_tree.map(PathText), snapshot })
    }

    /// The same of the repository `common` of a linked work tree, which is kept outside of that, with `path` in its stead. `linked` is the
    /// work tree's own folder in it.
    pub(crate) fn outside(common: &Path, linked: &Path, path: PathBuf) -> Result<Self, Error> {
        let name = linked.file_name().unwrap_or_default();
        Ok(Self {
            path: PathText(path),
            common: PathText(common.to_owned()),
            linked: Some(PathText(name.into())),
            work_tree: Some(PathText(PathBuf::new())),
            snapshot: snapshot(common, Some(name))?,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path.0
    }

    pub(crate) fn common(&self) -> &Path {
        &self.common.0
    }

    pub(crate) fn work_tree(&self) -> Option<&Path> {
        self.work_tree.as_ref().map(|path| path.0.as_path())
    }

    /// `None` where no task left anything of it. `upper` is the layer that has it at `inner`, and `common` finds it on the host.
    pub(crate) fn open(
        &self,
        common: impl FnOnce() -> io::Result<Tree>,
        upper: &Path,
        inner: &Path,
    ) -> Result<Option<Opened<'_>>, WorkspaceError> {
        let failed = |source| WorkspaceError::repository("open", self.path(), source);
        let tree = Tree::open(upper).map_err(|source| WorkspaceError::new("open", upper, source))?;
        let Some(view) = View::in_upper(&tree, inner).map_err(failed)? else {
            return Ok(None);
        };
        // As a run leaves it that did not use git.
        let is_all = inner.as_os_str().is_empty();
        if is_all && tree.list_at_most(inner, 1).is_ok_and(|entries| entries.is_empty()) {
            return Ok(None);
        }
        let common = common().map_err(|_| self.is_elsewhere())?;
        let linked = self.linked.as_ref().map(|path| path.0.as_os_str());
        let host = HostRepository::of(common, linked).map_err(failed)?;
        Ok(Some(Opened { known: self, host, view }))
    }

    /// Why nothing is written to it.
    pub(crate) fn is_elsewhere(&self) -> WorkspaceError {
        let source = io::Error::other("it is not where it was, or a link leads to it");
        WorkspaceError::new("open", self.common(), source)
    }
}

impl Opened<'_> {
    /// Which paths of the work tree git recorded other versions of; `None` where that cannot be determined.
    pub(crate) fn recorded(&self) -> Option<BTreeSet<PathBuf>> {
        self.host.recorded(&self.view)
    }

    /// Reads and judges what the task left; nothing is written but in `folder`, that of the view.
    pub(crate) fn prepare(&self, run: &RunName, folder: &Path) -> Result<Import<'_>, WorkspaceError> {
        let quarantine = folder.join(trash::name());
        let snapshot = &self.known.snapshot;
        Import::prepare(&self.host, &self.view, snapshot, run, &Limits::default(), &quarantine).map_err(
            |source| WorkspaceError::repository("import what the task did in", self.known.path(), source),
        )
    }

    /// What would come.
    pub(crate) fn changes(&self, folder: &Path) -> Result<RepositoryChanges, WorkspaceError> {
        let report = self.prepare(&any_run(), folder)?.report().clone();
        Ok(RepositoryChanges { path: self.known.path().to_owned(), report, waits: false })
    }
}

/// A name for what is not written.
pub(crate) fn any_run() -> RunName {
    run("RUN")
}

/// A word of ours as the name of a run.
pub(crate) fn run(name: &str) -> RunName {
    name.parse().unwrap_or_else(|_| any_run())
}

/// Whether the task has a repository at `path` of its upper layer that git works with.
pub(crate) fn is_repository(upper: &Tree, path: &Path) -> bool {
    let has_head = || matches!(upper.facts(&path.join("HEAD")), Ok(Some(facts)) if facts.kind == Kind::File);
    has_head() && View::in_upper(upper, path).is_ok_and(|view| view.is_some_and(|view| view.is_repository()))
}

fn snapshot(common: &Path, linked: Option<&OsStr>) -> Result<Snapshot, Error> {
    Snapshot::take(&match linked {
        Some(name) => HostRepository::open_linked(common, name),
        None => HostRepository::open(common),
    }?)
}

/// The repositories in `.git` folders of a tree that has `names`, as far as `has` knows, and the work tree of each. `names` has all that are
/// called `.git` or `HEAD`.
pub(crate) fn find<'a>(
    tree: &Tree,
    names: impl Iterator<Item = &'a Path>,
    has: impl Fn(&Path) -> bool,
) -> Vec<Found> {
    let mut found = Vec::new();
    let mut work_trees: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for path in names {
        let folder = path.parent().unwrap_or(Path::new(""));
        if path.file_name() == Some(OsStr::new(".git")) {
            let is_file = matches!(tree.facts(path), Ok(Some(facts)) if facts.kind == Kind::File);
            let target = || pointer(tree, folder, &text(tree, path)?, b"gitdir: ");
            match is_file.then(target).flatten() {
                Some(Pointer::Inside(git_dir)) => drop(work_trees.insert(git_dir, folder.to_owned())),
                None if !is_file => drop(work_trees.insert(path.to_owned(), folder.to_owned())),
                Some(Pointer::Outside(_)) | None => {}
            }
        }
        let is_head = path.file_name() == Some(OsStr::new("HEAD"));
        if is_head && is_in_git(folder) && has(&folder.join("objects")) && has(&folder.join("refs")) {
            found.push(folder.to_owned());
        }
    }
    found.into_iter().map(|path| (path.clone(), work_trees.get(&path).cloned())).collect()
}

/// Whether `path` is a `.git`, or lies in one.
pub(crate) fn is_in_git(path: &Path) -> bool {
    path.iter().any(|part| part == ".git")
}
