//! The repositories of which tasks have a view in a copy.
//!
//! Nothing of a `.git` is compared or copied. What a task did in its view of one is imported by `sandbox-host-git`, as data of a closed list.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::tree::Tree;
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

    pub(super) fn contains(&self, path: &Path) -> bool {
        self.0.contains_key(path)
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

/// Notes what each repository of `tree` is, whose names are in `folder`, before a task gets a view of it. Of one that the copy has something
/// of, what it was when that began still counts.
pub(super) fn note(tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let host = Tree::open(tree).map_err(|source| WorkspaceError::new("open", tree, source))?;
    let names = Names::read(folder)?;
    let paths = names.iter().map(|name| Path::new(OsStr::from_bytes(name)));
    let mut found = find(&host, paths, |path| names.contains(path));
    let mut all = read(folder)?;
    all.retain(|known| {
        let is_used = folder.join(UPPER).join(known.path()).symlink_metadata().is_ok();
        is_used && found.iter().any(|(path, _)| path == known.path())
    });
    found.retain(|(path, _)| all.iter().all(|known| known.path() != path));
    all.extend(Known::all(tree, found, Path::new(".git"))?);
    record::write(&folder.join(NAME), &all)
}

/// The same of the repository at `common`, outside of the tree, in the folder for its view. `linked` is the work tree's own folder in it.
pub(super) fn note_outside(common: &Path, linked: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let failed = |source| WorkspaceError::repository("make a view of", common, source);
    let known = Known::outside(common, linked, OUTSIDE.into()).map_err(failed)?;
    record::write(&folder.join(NAME), &[known])
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
    sandbox_files::or_absent(fs::remove_file(folder.join(NAME)))
}
