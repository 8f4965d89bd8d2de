//! The repositories of which tasks have a view in a copy.
//!
//! Nothing of a `.git` is compared or copied. What a task did in its view of one is imported by `sandbox-host-git`, as data of a closed list.

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

/// Where the snapshots are, in the folder of a copy, and in the one for a repository outside of the tree.
const NAME: &str = "repositories.json";
/// The path of a repository that is kept outside of the tree, as if it were a folder of that.
pub(super) const OUTSIDE: &str = ".git";

/// The repositories of a copy, by their paths in the tree; whether each is kept outside of that.
#[derive(Debug, Default)]
pub(super) struct Repositories(BTreeMap<PathBuf, (Known, bool)>);

impl Repositories {
    /// Those that the copy in `folder` has views of.
    pub(super) fn read(folder: &Path) -> Result<Self, WorkspaceError> {
        let mut all = BTreeMap::new();
        for (folder, is_outside) in [(folder.to_owned(), false), (folder.join(GIT), true)] {
            let known = read(&folder)?.into_iter();
            all.extend(known.map(|known| (known.path().to_owned(), (known, is_outside))));
        }
        Ok(Self(all))
    }

    /// The same without one that is kept outside of the tree.
    fn inside(folder: &Path) -> Result<Self, WorkspaceError> {
        Ok(Self(read(folder)?.into_iter().map(|known| (known.path().to_owned(), (known, false))).collect()))
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Whether no task wrote anything in that at `path` of the layer `upper`.
    pub(super) fn is_unused(&self, path: &Path, upper: &Tree) -> bool {
        self.0.get(path).is_some_and(|(known, _)| known.is_unused(upper, path))
    }

    /// Whether the folder `path` of the layer `upper` is there for nothing but repositories in it.
    pub(super) fn are_all_of(&self, path: &Path, upper: &Tree) -> bool {
        let is_above = self.0.keys().any(|inner| inner != path && inner.starts_with(path));
        let is_one = |(name, kind): &(OsString, Kind)| {
            let inner = path.join(name);
            *kind == Kind::Folder && (self.contains(&inner) || self.are_all_of(&inner, upper))
        };
        is_above && upper.list(path).is_ok_and(|entries| entries.iter().all(is_one))
    }

    /// Whether that at `path` is kept outside of the tree.
    pub(super) fn is_outside(&self, path: &Path) -> bool {
        self.0.get(path).is_some_and(|(_, is_outside)| *is_outside)
    }

    /// Those that tasks left something of, the inner ones before those that name their commits.
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

/// Notes what each repository of `tree` is, whose names are in `folder`, and puts what a task sees of it into the copy, before a task gets a
/// view of it. Of one that the copy has something of, what it was when that began still counts.
///
/// The record is written before anything is put into the layer, and each is put there whole: after a kill, the layer has nothing of a
/// repository, and nothing is imported.
pub(super) fn note(tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let open = |path: &Path| Tree::open(path).map_err(|source| WorkspaceError::new("open", path, source));
    let (host, layer) = (open(tree)?, open(&folder.join(UPPER))?);
    let names = Names::read(folder)?;
    let paths = names.iter().map(|name| Path::new(OsStr::from_bytes(name)));
    let mut found = find(&host, paths, |path| names.contains(path));
    let noted = Repositories::inside(folder)?;
    for path in noted.paths().filter(|path| noted.is_unused(path, &layer)) {
        if let Err(error) = thaw(&layer, path, folder) {
            // What is noted of it still holds.
            tracing::warn!(path = %path.display().to_string().escape_debug(), %error, "the task sees this repository as it was: it cannot be taken out of the copy");
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
    fs::create_dir(&staged).map_err(|source| WorkspaceError::new("make", &staged, source))?;
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
            tracing::warn!(path = %path.display().to_string().escape_debug(), %error, "the task sees what the host does in this repository meanwhile: it cannot be put into the copy");
        }
    }
    if let Err(error) = trash::empty(folder) {
        tracing::warn!(%error, "what a task saw of repositories that it did not use cannot be removed");
    }
    Ok(())
}

/// Puts what is staged of the repository at `path` into the layer, where it did not come with another one around it.
fn put(host: &Tree, staged: &Tree, layer: &Tree, path: &Path) -> io::Result<()> {
    if staged.facts(path)?.is_none() {
        return Ok(());
    }
    layer.make_folders(path.parent().unwrap_or(Path::new("")), host)?;
    let ((from, name), (to, _)) = (staged.parent(path)?, layer.parent(path)?);
    Ok(renameat(from, name, to, name)?)
}

/// Takes what a task saw of the repository at `path`, and did not use, out of the layer, with the folders that were only made for it.
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

/// The same of the repository at `common`, outside of the tree, in the folder for its view. `linked` is the work tree's own folder in it.
pub(super) fn note_outside(common: &Path, linked: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let known = Known::outside(common, linked, OUTSIDE.into(), &folder.join(UPPER))?;
    record::write(&folder.join(NAME), &[known])
}

/// Whether a task did something in the view that is kept in `folder` of a repository outside of the tree.
pub(super) fn is_used_outside(folder: &Path) -> bool {
    let upper = Tree::open(&folder.join(UPPER));
    let is_unused = |upper: &Tree| {
        read(folder).is_ok_and(|all| all.iter().all(|known| known.is_unused(upper, Path::new(""))))
    };
    upper.is_ok_and(|upper| !is_unused(&upper))
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

fn read(folder: &Path) -> Result<Vec<Known>, WorkspaceError> {
    Ok(record::read(&folder.join(NAME))?.unwrap_or_default())
}

/// Removes what is noted here.
pub(super) fn remove(folder: &Path) -> std::io::Result<()> {
    or_absent(fs::remove_file(folder.join(NAME)))
}
