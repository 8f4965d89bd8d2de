//! The repositories that tasks have views of in a copy.
//!
//! No part of a `.git` is compared or copied. `sandbox-host-git` imports a task's changes in its
//! view as data of a closed list.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, renameat, unlinkat};
use sandbox_files::or_absent;
use sandbox_files::overlay::has_note;
use sandbox_files::tree::{Kind, Tree};
use sandbox_host_git::{Error, HostRepository, Import, Limits, Snapshot, View};

use super::super::error::WorkspaceError;
use super::super::git_view::{Known, Opened, any_run, find};
use super::super::names::Names;
use super::super::overlay::UPPER;
use super::super::record;
use super::super::trash;
use super::places::GIT;

/// The file with the snapshots, in the folder of a copy, and in the one for a repository outside
/// the tree.
const NAME: &str = "repositories.json";
/// The path of a repository outside the tree, as if it were one of the tree's folders.
pub(super) const OUTSIDE: &str = ".git";

/// The repositories of a copy, by their paths in the tree; whether each is stored outside it.
#[derive(Debug, Default)]
pub(super) struct Repositories(BTreeMap<PathBuf, (Known, bool)>);

impl Repositories {
    /// The repositories that the copy in `folder` has views of.
    pub(super) fn read(folder: &Path) -> Result<Self, WorkspaceError> {
        let mut all = BTreeMap::new();
        for (folder, is_outside) in [(folder.to_owned(), false), (folder.join(GIT), true)] {
            let known = read(&folder)?.into_iter();
            all.extend(known.map(|known| (known.path().to_owned(), (known, is_outside))));
        }
        Ok(Self(all))
    }

    /// The same except for one outside the tree.
    fn inside(folder: &Path) -> Result<Self, WorkspaceError> {
        Ok(Self(read(folder)?.into_iter().map(|known| (known.path().to_owned(), (known, false))).collect()))
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Whether no task changed the repository at `path` of the layer `upper`.
    pub(super) fn is_unused(&self, path: &Path, upper: &Tree) -> bool {
        self.0.get(path).is_some_and(|(known, _)| known.is_unused(upper, path))
    }

    /// Whether the folder `path` of the layer `upper` exists only for repositories in it.
    pub(super) fn are_all_of(&self, path: &Path, upper: &Tree) -> bool {
        let is_above = self.0.keys().any(|inner| inner != path && inner.starts_with(path));
        let is_one = |(name, kind): &(OsString, Kind)| {
            let inner = path.join(name);
            *kind == Kind::Folder && (self.contains(&inner) || self.are_all_of(&inner, upper))
        };
        is_above && upper.list(path).is_ok_and(|entries| entries.iter().all(is_one))
    }

    /// Whether the repository at `path` is outside the tree.
    pub(super) fn is_outside(&self, path: &Path) -> bool {
        self.0.get(path).is_some_and(|(_, is_outside)| *is_outside)
    }

    /// The repositories with changes of tasks, inner ones before those that name their commits.
    pub(super) fn opened(
        &self,
        host: &Tree,
        folder: &Path,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Result<Vec<Opened<'_>>, WorkspaceError> {
        let wanted = self.0.iter().rev().filter(|(path, _)| is_wanted(path));
        let mut all = Vec::new();
        for (path, (known, is_outside)) in wanted {
            all.extend(if *is_outside {
                known.open(|| Tree::open(known.common()), &folder.join(GIT).join(UPPER), Path::new(""))?
            } else {
                known.open(|| host.inner(path), &folder.join(UPPER), path)?
            });
        }
        Ok(all)
    }
}

/// Records the state of each repository of `tree`, whose names are in `folder`, and puts the files
/// that a task must see into the copy, before a task gets a view of it. For a repository with
/// changes in the copy, the earlier record remains valid.
///
/// The record is written before anything is put into the layer, and each repository is put there
/// atomically: after a kill, the layer has nothing of a repository, and nothing is imported.
pub(super) fn note(tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let open = |path: &Path| Tree::open(path).map_err(|source| WorkspaceError::new("open", path, source));
    let (host, layer) = (open(tree)?, open(&folder.join(UPPER))?);
    let names = Names::read(folder)?;
    let paths = names.iter().map(|name| Path::new(OsStr::from_bytes(name)));
    let mut found = find(&host, paths, |path| names.contains(path));
    let noted = Repositories::inside(folder)?;
    for path in noted.paths().filter(|path| noted.is_unused(path, &layer)) {
        if let Err(error) = thaw(&layer, path, folder) {
            // Its record remains valid.
            tracing::warn!(
                path = %path.display().to_string().escape_debug(),
                %error,
                "failed to remove a repository from the copy; the task sees its former state"
            );
        }
    }
    let is_used = |path: &Path| {
        matches!(layer.facts(path), Ok(Some(_)))
            && !noted.are_all_of(path, &layer)
            && found.iter().any(|(other, _)| path == other)
    };
    let used: BTreeSet<PathBuf> = noted.paths().filter(|path| is_used(path)).map(Path::to_owned).collect();
    found.retain(|(path, _)| !used.contains(path));
    let staged = folder.join(trash::name());
    fs::create_dir(&staged).map_err(|source| WorkspaceError::new("create", &staged, source))?;
    let upper = View::upper(open(&folder.join(UPPER))?);
    let new = Known::all((&host, Path::new("")), found, Path::new(".git"), &staged, Some(&upper))?;
    let staged = open(&staged)?;
    let frozen: Vec<PathBuf> =
        new.iter().filter(|known| known.is_frozen()).map(|known| known.path().to_owned()).collect();
    let kept = noted.0.into_values().map(|(known, _)| known).filter(|known| used.contains(known.path()));
    record::write(&folder.join(NAME), &kept.chain(new).collect::<Vec<_>>())?;
    for path in frozen {
        if let Err(error) = put(&host, &staged, &layer, &path) {
            // Then the layer has nothing of it.
            tracing::warn!(
                path = %path.display().to_string().escape_debug(),
                %error,
                "failed to put a repository into the copy; the task sees the host's later changes in it"
            );
        }
    }
    if let Err(error) = trash::empty(folder) {
        tracing::warn!(%error, "failed to remove unused frozen repositories");
    }
    Ok(())
}

/// Puts the staged files of the repository at `path` into the layer, unless an outer one contained
/// them.
fn put(host: &Tree, staged: &Tree, layer: &Tree, path: &Path) -> io::Result<()> {
    if staged.facts(path)?.is_none() {
        return Ok(());
    }
    layer.make_folders(path.parent().unwrap_or(Path::new("")), host)?;
    let ((from, name), (to, _)) = (staged.parent(path)?, layer.parent(path)?);
    Ok(renameat(from, name, to, name)?)
}

/// Removes the unused frozen files of the repository at `path` from the layer, with the folders
/// that existed only for it.
fn thaw(layer: &Tree, path: &Path, folder: &Path) -> io::Result<()> {
    let (from, name) = layer.parent(path)?;
    let folder = Tree::open(folder)?;
    let place = PathBuf::from(trash::name());
    let (to, new) = folder.parent(&place)?;
    renameat(from, name, to, new)?;
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        let is_opaque = layer.folder(above).and_then(|open| has_note(open, "opaque")).unwrap_or(true);
        let is_removed = || -> io::Result<()> {
            let (parent, name) = layer.parent(above)?;
            Ok(unlinkat(parent, name, AtFlags::REMOVEDIR)?)
        };
        if is_opaque || is_removed().is_err() {
            break;
        }
    }
    Ok(())
}

/// As [`note`], for the repository at `common`, outside the tree, in the folder for its view.
/// `linked` is the work tree's own folder in it.
pub(super) fn note_outside(common: &Path, linked: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let known = Known::outside(common, linked, OUTSIDE.into(), &folder.join(UPPER))?;
    record::write(&folder.join(NAME), &[known])
}

/// Whether a task changed the view in `folder` of a repository outside the tree.
pub(super) fn is_used_outside(folder: &Path) -> bool {
    let upper = Tree::open(&folder.join(UPPER));
    let is_unused = |upper: &Tree| {
        read(folder).is_ok_and(|all| all.iter().all(|known| known.is_unused(upper, Path::new(""))))
    };
    upper.is_ok_and(|upper| !is_unused(&upper))
}

/// Creates a repository in `folder`, that of the copy, from the one that a task created at `path`
/// of its upper layer `upper`: its commits, without settings and hooks.
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
    made().map_err(|source| WorkspaceError::repository("create", path, source))?;
    Tree::open(&place).map_err(|source| WorkspaceError::new("open", &place, source))
}

fn read(folder: &Path) -> Result<Vec<Known>, WorkspaceError> {
    Ok(record::read(&folder.join(NAME))?.unwrap_or_default())
}

/// Removes these records.
pub(super) fn remove(folder: &Path) -> std::io::Result<()> {
    or_absent(fs::remove_file(folder.join(NAME)))
}
