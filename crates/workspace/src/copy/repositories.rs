//! The repositories of which tasks have a view in a copy: what each was when the first task began, and what comes of it.
//!
//! Nothing of a `.git` is compared or copied. What a task did in its view of one is imported by `sandbox-host-git`, as data of a closed list.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Kind, Tree};
use sandbox_files::{Replacement, read_if_present};
use sandbox_host_git::{Error, HostRepository, Import, Limits, RunName, Snapshot, View};
use serde::{Deserialize, Serialize};

use super::super::error::WorkspaceError;
use super::super::git_follow::{Pointer, pointer};
use super::super::names::Names;
use super::super::role::text;
use super::git_changes::RepositoryChanges;
use super::path_text::PathText;
use super::places::{GIT, UPPER};
use super::trash;

/// Where the snapshots are, in the folder of a copy, and in the one for a repository outside of the tree.
const NAME: &str = "repositories.json";
/// The path of a repository that is kept outside of the tree, as if it were a folder of that.
pub(super) const OUTSIDE: &str = ".git";

/// A repository of the host, and what it was when a task got a view of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    path: PathText,
    common: PathText,
    /// Of a linked work tree: its folder in `worktrees`.
    linked: Option<PathText>,
    /// Its work tree, in the tree.
    work_tree: Option<PathText>,
    snapshot: Snapshot,
    #[serde(skip)]
    is_outside: bool,
}

/// The repositories of a copy, by their paths in the tree.
#[derive(Debug, Default)]
pub(super) struct Repositories(BTreeMap<PathBuf, Known>);

/// A repository that a task may have changed, opened on both sides.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    pub(super) known: &'a Known,
    host: HostRepository,
    view: View,
}

impl Repositories {
    /// Those that the copy in `folder` has views of.
    pub(super) fn read(folder: &Path) -> Result<Self, WorkspaceError> {
        let mut all = BTreeMap::new();
        for (folder, is_outside) in [(folder.to_owned(), false), (folder.join(GIT), true)] {
            let known = read(&folder)?.into_iter();
            all.extend(known.map(|known| (known.path.0.clone(), Known { is_outside, ..known })));
        }
        Ok(Self(all))
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Whether that at `path` is kept outside of the tree.
    pub(super) fn is_outside(&self, path: &Path) -> bool {
        self.0.get(path).is_some_and(|known| known.is_outside)
    }

    /// Those that tasks left something of, the inner ones before those that name their commits.
    pub(super) fn opened(
        &self,
        host: &Tree,
        folder: &Path,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Result<Vec<Opened<'_>>, WorkspaceError> {
        let wanted = self.0.iter().rev().filter(|(path, _)| is_wanted(path));
        wanted.filter_map(|(_, known)| known.open(host, folder).transpose()).collect()
    }
}

impl Known {
    pub(super) fn path(&self) -> &Path {
        &self.path.0
    }

    pub(super) fn common(&self) -> &Path {
        &self.common.0
    }

    pub(super) fn work_tree(&self) -> Option<&Path> {
        self.work_tree.as_ref().map(|path| path.0.as_path())
    }

    /// `None` where no task left anything of it. `host` is the tree.
    fn open(&self, host: &Tree, folder: &Path) -> Result<Option<Opened<'_>>, WorkspaceError> {
        let failed = |source| WorkspaceError::repository("open", self.path(), source);
        let (upper, inner) = if self.is_outside {
            (folder.join(GIT).join(UPPER), Path::new(""))
        } else {
            (folder.join(UPPER), self.path())
        };
        let tree = Tree::open(&upper).map_err(|source| WorkspaceError::new("open", &upper, source))?;
        let Some(view) = View::in_upper(&tree, inner).map_err(failed)? else {
            return Ok(None);
        };
        // As a run leaves it that did not use git.
        if self.is_outside && tree.list_at_most(inner, 1).is_ok_and(|entries| entries.is_empty()) {
            return Ok(None);
        }
        // A task that works on the tree itself could have put a link to another one in its place.
        let is_same = self.is_outside
            || host.inner(self.path()).and_then(|inner| inner.identity()).is_ok_and(|identity| {
                Tree::open(self.common()).and_then(|tree| tree.identity()).is_ok_and(|is| is == identity)
            });
        if !is_same {
            let source = std::io::Error::other("it is not where it was, or a link leads to it");
            return Err(WorkspaceError::new("open", self.common(), source));
        }
        let linked = self.linked.as_ref().map(|path| path.0.as_os_str());
        let host = open(self.common(), linked).map_err(failed)?;
        Ok(Some(Opened { known: self, host, view }))
    }
}

impl Opened<'_> {
    /// Which paths of the work tree git recorded other versions of; `None` where that cannot be determined.
    pub(super) fn recorded(&self) -> Option<BTreeSet<PathBuf>> {
        self.host.recorded(&self.view)
    }

    /// Reads and judges what the task left; nothing is written but in `folder`, that of the copy.
    pub(super) fn prepare(&self, run: &RunName, folder: &Path) -> Result<Import<'_>, WorkspaceError> {
        let quarantine = folder.join(trash::name());
        let snapshot = &self.known.snapshot;
        Import::prepare(&self.host, &self.view, snapshot, run, &Limits::default(), &quarantine).map_err(
            |source| WorkspaceError::repository("import what the task did in", self.known.path(), source),
        )
    }

    /// What would come.
    pub(super) fn changes(&self, folder: &Path) -> Result<RepositoryChanges, WorkspaceError> {
        let report = self.prepare(&any_run(), folder)?.report().clone();
        Ok(RepositoryChanges { path: self.known.path().to_owned(), report, waits: false })
    }
}

/// A name for what is not written.
fn any_run() -> RunName {
    run("RUN")
}

/// A word of ours as the name of a run.
pub(super) fn run(name: &str) -> RunName {
    name.parse().unwrap_or_else(|_| any_run())
}

/// Notes what each repository of `tree` is, whose names are in `folder`, before a task gets a view of it. Of one that the copy has something
/// of, what it was when that began still counts.
pub(super) fn note(tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let host = Tree::open(tree).map_err(|source| WorkspaceError::new("open", tree, source))?;
    let before = read(folder)?;
    let mut all = Vec::new();
    for (path, work_tree) in find(&host, &Names::read(folder)?) {
        if let Some(known) = before.iter().find(|known| known.path.0 == path)
            && folder.join(UPPER).join(&path).symlink_metadata().is_ok()
        {
            all.push(known.clone());
            continue;
        }
        match snapshot(&tree.join(&path), None) {
            Ok(snapshot) => all.push(Known {
                common: PathText(tree.join(&path)),
                path: PathText(path),
                linked: None,
                work_tree: work_tree.map(PathText),
                snapshot,
                is_outside: false,
            }),
            Err(source) if path == Path::new(".git") => {
                return Err(WorkspaceError::repository("make a view of", &path, source));
            }
            Err(error) => {
                tracing::warn!(path = %path.display().to_string().escape_debug(), %error, "what the task does in this repository will not come: it is not understood");
            }
        }
    }
    write(&all, folder)
}

/// The same of the repository at `common`, outside of the tree, in the folder for its view. `linked` is the work tree's own folder in it.
pub(super) fn note_outside(common: &Path, linked: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let failed = |source| WorkspaceError::repository("make a view of", common, source);
    let name = linked.file_name().unwrap_or_default();
    let known = Known {
        path: PathText(OUTSIDE.into()),
        common: PathText(common.to_owned()),
        linked: Some(PathText(name.into())),
        work_tree: Some(PathText(PathBuf::new())),
        snapshot: snapshot(common, Some(name)).map_err(failed)?,
        is_outside: true,
    };
    write(&[known], folder)
}

/// Makes a repository in `folder`, that of the copy, of what a task made at `path` of its upper layer `upper`: its commits, without settings
/// and hooks.
pub(super) fn make(upper: &Tree, path: &Path, folder: &Path) -> Result<Tree, WorkspaceError> {
    let place = folder.join(trash::name());
    let made = || -> Result<(), Error> {
        let Some(view) = View::in_upper(upper, path)? else { return Ok(()) };
        let host = HostRepository::create(&place, &view, !path.ends_with(".git"))?;
        let start = Snapshot::take(&host)?;
        let quarantine = folder.join(trash::name());
        Import::prepare(&host, &view, &start, &any_run(), &Limits::default(), &quarantine)?.commit()?;
        Ok(())
    };
    made().map_err(|source| WorkspaceError::repository("make", path, source))?;
    Tree::open(&place).map_err(|source| WorkspaceError::new("open", &place, source))
}

/// Whether the task has a repository at `path` of its upper layer that git works with.
pub(super) fn is_repository(upper: &Tree, path: &Path) -> bool {
    let has_head = || matches!(upper.facts(&path.join("HEAD")), Ok(Some(facts)) if facts.kind == Kind::File);
    has_head() && View::in_upper(upper, path).is_ok_and(|view| view.is_some_and(|view| view.is_repository()))
}

fn open(common: &Path, linked: Option<&OsStr>) -> Result<HostRepository, Error> {
    match linked {
        Some(name) => HostRepository::open_linked(common, name),
        None => HostRepository::open(common),
    }
}

fn snapshot(common: &Path, linked: Option<&OsStr>) -> Result<Snapshot, Error> {
    Snapshot::take(&open(common, linked)?)
}

/// The repositories in `.git` folders of a tree with these names, and the work tree of each.
fn find(tree: &Tree, names: &Names) -> Vec<(PathBuf, Option<PathBuf>)> {
    let mut found = Vec::new();
    let mut work_trees: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for path in names.iter().map(|name| Path::new(OsStr::from_bytes(name))) {
        let folder = path.parent().unwrap_or(Path::new(""));
        if path.file_name() == Some(OsStr::new(".git")) {
            let is_file = matches!(tree.facts(path), Ok(Some(facts)) if facts.kind == Kind::File);
            let target = || pointer(tree, folder, &text(tree, path)?, b"gitdir: ");
            match is_file.then(target).flatten() {
                Some(Pointer::Inside(git_dir)) => drop(work_trees.insert(git_dir, folder.to_owned())),
                None if !is_file => drop(work_trees.insert(path.to_owned(), folder.to_owned())),
                Some(Pointer::Outside(_) | Pointer::Dangling) | None => {}
            }
        }
        let is_head = path.file_name() == Some(OsStr::new("HEAD"));
        let has = |name: &str| names.contains(&folder.join(name));
        if is_head && is_in_git(folder) && has("objects") && has("refs") {
            found.push(folder.to_owned());
        }
    }
    found.into_iter().map(|path| (path.clone(), work_trees.get(&path).cloned())).collect()
}

/// Whether `path` is a `.git`, or lies in one.
pub(super) fn is_in_git(path: &Path) -> bool {
    path.iter().any(|part| part == ".git")
}

fn read(folder: &Path) -> Result<Vec<Known>, WorkspaceError> {
    let path = folder.join(NAME);
    let text = read_if_present(&path).map_err(|source| WorkspaceError::new("read", &path, source))?;
    let Some(text) = text else { return Ok(Vec::new()) };
    serde_json::from_slice(&text).map_err(|error| WorkspaceError::unreadable(&path, error.to_string()))
}

fn write(all: &[Known], folder: &Path) -> Result<(), WorkspaceError> {
    let path = folder.join(NAME);
    serde_json::to_vec(all)
        .map_err(Into::into)
        .and_then(|text| Replacement::private().write(&path, &text))
        .map_err(|source| WorkspaceError::new("write", &path, source))
}

/// Removes what is noted here.
pub(super) fn remove(folder: &Path) -> std::io::Result<()> {
    sandbox_files::or_absent(fs::remove_file(folder.join(NAME)))
}
