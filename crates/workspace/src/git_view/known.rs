//! Repositories that tasks have views of: their state when the task began, and their import.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::or_absent;
use sandbox_files::tree::{Kind, Tree};
use sandbox_host_git::{Error, HostRepository, Import, Limits, RunName, Snapshot, View};
use serde::{Deserialize, Serialize};

use super::super::error::WorkspaceError;
use super::super::fingerprint::ContentFingerprint;
use super::super::git_follow::{Pointer, pointer};
use super::super::inventory::is_in_git;
use super::super::path_text::PathText;
use super::super::role::text;
use super::super::trash;

/// A host repository, and its state when a task got a view of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    path: PathText,
    common: PathText,
    /// For a linked work tree: its folder in `worktrees`.
    linked: Option<PathText>,
    /// Its work tree, in the tree.
    work_tree: Option<PathText>,
    snapshot: Snapshot,
    /// The fingerprint of the frozen files in the layer before the task began; `None` if there were
    /// none, or they were the task's already.
    frozen: Option<ContentFingerprint>,
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
    /// Records the repositories `found`, and puts the files that a task must see from the start
    /// into the folder `frozen`, for the layer over the folder `lower` of their tree. `main` must
    /// be a supported repository; other unsupported ones are skipped, and nothing of them is
    /// imported. For those that the layer `upper` hides, a task sees the layer's own files.
    pub(crate) fn all(
        lower: (&Tree, &Path),
        mut found: Vec<Found>,
        main: &Path,
        frozen: &Path,
        upper: Option<&View>,
    ) -> Result<Vec<Self>, WorkspaceError> {
        let mut all = Vec::new();
        // Outer repositories before those in their folders.
        found.sort();
        for (path, work_tree) in found {
            match Self::of(lower, path.clone(), work_tree, frozen, upper) {
                Ok(known) => all.push(known),
                Err(source) if path == main => {
                    return Err(WorkspaceError::repository("make a view of", &path, source));
                }
                Err(error) => {
                    tracing::warn!(
                        path = %path.display().to_string().escape_debug(),
                        %error,
                        "the task's changes in this repository will not be imported: it is not supported"
                    );
                }
            }
        }
        let tree = layer(frozen)?;
        // An outer one is frozen with those in its folders.
        let noted = all.into_iter().map(|(known, is_frozen)| {
            let at = || ContentFingerprint::of(&tree, inner(known.path(), lower.1));
            Self { frozen: is_frozen.then(at).flatten(), ..known }
        });
        Ok(noted.collect())
    }

    /// Records the repository at `path` of the tree, whose work tree is the tree's folder
    /// `work_tree`.
    fn of(
        (lower, base): (&Tree, &Path),
        path: PathBuf,
        work_tree: Option<PathBuf>,
        frozen: &Path,
        upper: Option<&View>,
    ) -> Result<(Self, bool), Error> {
        let inner = inner(&path, base);
        let host = HostRepository::of(opened(lower, inner)?, None)?;
        let is_frozen = !upper.is_some_and(|upper| upper.is_hidden(inner));
        let snapshot = if is_frozen { freeze(&host, lower, inner, frozen)? } else { Snapshot::take(&host)? };
        let common = PathText(lower.path().join(inner));
        let work_tree = work_tree.map(PathText);
        Ok((
            Self { path: PathText(path), common, linked: None, work_tree, snapshot, frozen: None },
            is_frozen,
        ))
    }

    /// Records the repository `common` of a linked work tree, stored outside it and known as
    /// `path`. `linked` is the work tree's own folder in it.
    pub(crate) fn outside(
        common: &Path,
        linked: &Path,
        path: PathBuf,
        upper: &Path,
    ) -> Result<Self, WorkspaceError> {
        let failed = |source| WorkspaceError::repository("make a view of", common, source);
        let name = linked.file_name().unwrap_or_default();
        let lower = Tree::open(common).map_err(|source| WorkspaceError::new("open", common, source))?;
        let host = HostRepository::open_linked(common, name).map_err(failed)?;
        Ok(Self {
            common: PathText(common.to_owned()),
            linked: Some(PathText(name.into())),
            work_tree: Some(PathText(PathBuf::new())),
            snapshot: freeze(&host, &lower, Path::new(""), upper).map_err(failed)?,
            frozen: ContentFingerprint::of(&layer(upper)?, Path::new("")),
            path: PathText(path),
        })
    }

    /// Whether a task sees it in its frozen state.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Whether no task changed it in the folder `inner` of the layer `upper`.
    pub(crate) fn is_unused(&self, upper: &Tree, inner: &Path) -> bool {
        self.frozen.is_some() && self.frozen == ContentFingerprint::of(upper, inner)
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

    /// Opens both sides; `None` if no task left any of it. `upper` is the layer that has it at
    /// `inner`, and `common` finds it on the host.
    pub(crate) fn open(
        &self,
        common: impl FnOnce() -> io::Result<Tree>,
        upper: &Path,
        inner: &Path,
    ) -> Result<Option<Opened<'_>>, WorkspaceError> {
        let failed = |source| WorkspaceError::repository("open", self.path(), source);
        let tree = layer(upper)?;
        if self.is_unused(&tree, inner) {
            return Ok(None);
        }
        let Some(view) = View::in_upper(&tree, inner).map_err(failed)? else {
            return Ok(None);
        };
        let common = common().map_err(|_| self.is_elsewhere())?;
        let linked = self.linked.as_ref().map(|path| path.0.as_os_str());
        let host = HostRepository::of(common, linked).map_err(failed)?;
        Ok(Some(Opened { known: self, host, view }))
    }

    /// The error for a repository that has been replaced, to which nothing is written.
    pub(crate) fn is_elsewhere(&self) -> WorkspaceError {
        let source = io::Error::other("it is not where it was, or a link leads to it");
        WorkspaceError::new("open", self.common(), source)
    }
}

impl Opened<'_> {
    /// The paths of the work tree of which git recorded other versions; `None` if that cannot be
    /// determined.
    pub(crate) fn recorded(&self) -> Option<BTreeSet<PathBuf>> {
        self.known.snapshot.recorded(&self.host, &self.view)
    }

    /// Reads and checks the task's changes; writes only to `folder`, that of the view.
    pub(crate) fn prepare(&self, run: &RunName, folder: &Path) -> Result<Import<'_>, WorkspaceError> {
        self.prepare_within(run, folder, &Limits::default())
    }

    /// As [`prepare`](Self::prepare), within `limits`.
    pub(crate) fn prepare_within(
        &self,
        run: &RunName,
        folder: &Path,
        limits: &Limits,
    ) -> Result<Import<'_>, WorkspaceError> {
        let quarantine = folder.join(trash::name());
        let snapshot = &self.known.snapshot;
        Import::prepare(&self.host, &self.view, snapshot, run, limits, &quarantine).map_err(|source| {
            WorkspaceError::repository("import the task's changes in", self.known.path(), source)
        })
    }
}

/// A run name for an import that is never written.
pub(crate) fn any_run() -> RunName {
    run("RUN")
}

/// One of our own words as a run name.
pub(crate) fn run(name: &str) -> RunName {
    name.parse().unwrap_or_else(|_| any_run())
}

/// Whether the task has a valid repository at `path` of its upper layer.
pub(crate) fn is_repository(upper: &Tree, path: &Path) -> bool {
    let has_head = || matches!(upper.facts(&path.join("HEAD")), Ok(Some(facts)) if facts.kind == Kind::File);
    has_head() && View::in_upper(upper, path).is_ok_and(|view| view.is_some_and(|view| view.is_repository()))
}

/// The path in a layer over the folder `base` of a tree.
fn inner<'a>(path: &'a Path, base: &Path) -> &'a Path {
    path.strip_prefix(base).unwrap_or(path)
}

fn layer(upper: &Path) -> Result<Tree, WorkspaceError> {
    Tree::open(upper).map_err(|source| WorkspaceError::new("open", upper, source))
}

fn opened(lower: &Tree, inner: &Path) -> Result<Tree, Error> {
    let path = lower.path().join(inner);
    lower.inner(inner).map_err(|source| Error::Files { operation: "open", path, source })
}

/// Freezes `host`, the folder `inner` of `lower`, in the same folder of `frozen`.
fn freeze(host: &HostRepository, lower: &Tree, inner: &Path, frozen: &Path) -> Result<Snapshot, Error> {
    let place = frozen.join(inner);
    let failed = |source| Error::Files { operation: "copy the frozen state of", path: place.clone(), source };
    let layer = Tree::open(frozen).map_err(failed)?;
    let made = layer.make_folders(inner, lower).and_then(|()| layer.inner(inner)).map_err(failed);
    let snapshot = made.and_then(|made| Snapshot::freeze(host, made));
    if snapshot.is_err() {
        // With only some of the refs, the task would seem to have removed the others.
        or_absent(fs::remove_dir_all(&place)).map_err(failed)?;
    }
    snapshot
}

/// The repositories in `.git` folders of a tree that has `names`, filtered by `has`, and the work
/// tree of each. `names` contains all entries called `.git` or `HEAD`.
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
