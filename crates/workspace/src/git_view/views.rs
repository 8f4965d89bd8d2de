//! Views of repositories for a task that works on the tree itself: created before it starts, and
//! imported when all its processes have ended.
//!
//! An execution has its own folder for them, which it locks as long as it lives. [`recover`] finds
//! the folders of executions whose program was killed.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sandbox_files::host_path::Identity;
use sandbox_files::tree::{Facts, Tree};
use sandbox_files::{FileLock, create_folder, or_absent};
use sandbox_host_git::{Limits, RunName};
use serde::{Deserialize, Serialize};

use super::super::error::WorkspaceError;
use super::super::mount::Mount;
use super::super::overlay::{self, UPPER};
use super::super::path_text::PathText;
use super::super::protection::Protection;
use super::super::record;
use super::super::trash;
use super::git_changes::{FailedImport, GitChanges, RepositoryChanges};
use super::known::{Found, Known, run};
use super::written_later::hint;

/// The record of a view, in its folder.
const RECORD: &str = "view.json";
/// Locked as long as the execution lives.
const LOCK: &str = "lock";
/// The trees that the execution can write to: it exists before a task starts, and once all its
/// views exist.
const TREES: &str = "trees.json";
/// A marker in the folder of a view whose import took long and failed.
const SLOW: &str = "slow";
/// The version that this program writes and reads.
const VERSION: u32 = 1;

/// How much work to do for executions that were killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Work that fits the start of another execution: 30 seconds for each repository, and no import
    /// that took long and failed before.
    Start,
    /// All work.
    Whole,
}

impl Patience {
    /// The delay that a start can accept, in another project too.
    const LONG: Duration = Duration::from_secs(5);

    fn limits(self) -> Limits {
        let limits = Limits::default();
        match self {
            Self::Start => Limits { time: Duration::from_secs(30), ..limits },
            Self::Whole => limits,
        }
    }
}

/// The views of one execution.
#[derive(Debug)]
pub(crate) struct Views {
    /// Their folder; `None` if none can be created.
    folder: Option<PathBuf>,
    lock: Option<FileLock>,
    /// The folders that have views.
    of: Vec<PathBuf>,
    /// Folders that the task sees already, in a view or read-only.
    seen: Vec<Identity>,
    others: Vec<Other>,
}

/// Another living execution.
#[derive(Debug)]
struct Other {
    /// The trees that it can write to.
    trees: Vec<PathText>,
    /// Folders of repositories, with their inode numbers, that it has views of.
    views: BTreeSet<(PathBuf, u64)>,
}

/// A view of a repository's folder, which may contain others.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct View {
    version: u32,
    /// The work tree that contains it; the folder itself if that is elsewhere.
    tree: PathText,
    /// Its path in that tree.
    path: PathText,
    /// The inode number of the folder: a task may replace the folder.
    inode: u64,
    /// Repositories that are still to be imported, sorted by path.
    known: Vec<Known>,
}

impl Views {
    /// Views stored in `folder`, which need not exist yet; without one, no views are created.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, lock: None, of: Vec::new(), seen: Vec::new(), others: Vec::new() }
    }

    /// Whether no other execution has to know of this one.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock.is_none()
    }

    /// Finds the other living executions. Call it when the repositories are known: an execution
    /// that created one of them had announced before where it can write.
    pub(crate) fn look_around(&mut self) {
        let all = self.folder.as_deref().and_then(Path::parent).map(folders).unwrap_or_default();
        let others = all.iter().filter(|folder| Some(*folder) != self.folder.as_ref());
        self.others = others.filter_map(|folder| Other::living(folder)).collect();
    }

    /// Announces where the task will be able to write, before it starts.
    pub(crate) fn announce(&mut self, trees: Vec<PathBuf>) -> Result<(), WorkspaceError> {
        let Some(all) = self.folder.clone() else { return Ok(()) };
        self.lock(&all)?;
        record::write(&all.join(TREES), &trees.into_iter().map(PathText).collect::<Vec<_>>())
    }

    /// Creates their folder, which belongs to this execution as long as that lives.
    fn lock(&mut self, all: &Path) -> Result<(), WorkspaceError> {
        if self.lock.is_none() {
            create_folder(all, 0o700).map_err(|source| WorkspaceError::new("create", all, source))?;
            self.lock = Some(lock(all)?.ok_or_else(|| WorkspaceError::Busy { tree: all.to_owned() })?);
        }
        Ok(())
    }

    /// The mount at `place` over the folder `path` of `tree`, which contains the repositories
    /// `found`, each with its work tree: a view, or the folder itself, read-only, if there can be
    /// no view or is one already.
    pub(crate) fn over(
        &mut self,
        tree: &Tree,
        path: &Path,
        found: Vec<Found>,
        place: &str,
    ) -> io::Result<Mount> {
        let held = tree.held(path)?;
        let (identity, inode) = (Identity::of(&held)?, Facts::of(&held)?.stamp.inode);
        let lower = tree.inner(path)?;
        let known = |upper: &Path| Known::all((&lower, path), found, path, upper, None);
        Ok(self.mount(tree.path(), path, place, (identity, inode), known))
    }

    /// The mount that replaces `mount`, a repository outside the work tree whose own folder in it
    /// is `own`.
    pub(crate) fn instead_of(&mut self, mount: &Mount, own: &Path) -> io::Result<Mount> {
        let (common, held) = (mount.host_path(), mount.tree()?.folder(Path::new(""))?);
        let (identity, inode) = (Identity::of(&held)?, Facts::of(&held)?.stamp.inode);
        let known = |upper: &Path| Ok(vec![Known::outside(common, own, PathBuf::new(), upper)?]);
        let made = self.mount(common, Path::new(""), mount.container_path(), (identity, inode), known);
        Ok(made.protected(mount.protection().cloned().unwrap_or_default()))
    }

    /// Mounts a view of the folder `path` of `tree` at `place`.
    fn mount(
        &mut self,
        tree: &Path,
        path: &Path,
        place: &str,
        (identity, inode): (Identity, u64),
        known: impl FnOnce(&Path) -> Result<Vec<Known>, WorkspaceError>,
    ) -> Mount {
        let folder = &tree.join(path);
        let read_only = || Mount::read_only_at(folder, place).of(identity);
        if self.seen.contains(&identity) {
            return read_only();
        }
        self.seen.push(identity);
        // The other task could redirect the import.
        if self.others.iter().any(|other| other.can_write(folder, inode)) {
            tracing::warn!(
                repository = %folder.display().to_string().escape_debug(),
                "the task can write nothing in this repository: another run that began before it was there can change it"
            );
            return read_only();
        }
        match self.make((tree, path, inode), known) {
            Ok(kept_in) => Mount::copy_on_write(folder, place, kept_in),
            Err(error) => {
                tracing::warn!(
                    repository = %folder.display().to_string().escape_debug(),
                    problem = chain(&error),
                    "the task cannot write to this repository: failed to create a view of it"
                );
                read_only()
            }
        }
    }

    /// Creates the folders for a view that does not exist yet; `known` fills the upper one with the
    /// files that the task must see from the start.
    fn make(
        &mut self,
        (tree, path, inode): (&Path, &Path, u64),
        known: impl FnOnce(&Path) -> Result<Vec<Known>, WorkspaceError>,
    ) -> Result<PathBuf, WorkspaceError> {
        let lower = tree.join(path);
        let refused = |problem: &'static str| {
            WorkspaceError::new("make a view of", &lower, io::Error::new(io::ErrorKind::Unsupported, problem))
        };
        let Some(all) = self.folder.clone() else {
            return Err(refused("the engine makes none"));
        };
        if ![&all, &lower].into_iter().all(|path| overlay::can_name(path)) {
            return Err(refused("its path, or that of the state folder, has a `:`, `,`, `\\` or `\"` in it"));
        }
        self.lock(&all)?;
        let folder = all.join(self.seen.len().to_string());
        create_folder(&folder, 0o700).map_err(|source| WorkspaceError::new("create", &folder, source))?;
        let made =
            overlay::make(&lower, &folder).and_then(|()| known(&folder.join(UPPER))).and_then(|known| {
                let (tree, path) = (PathText(tree.to_owned()), PathText(path.to_owned()));
                View { version: VERSION, tree, path, inode, known }.write(&folder)
            });
        if let Err(error) = made {
            // Without a record, its files would seem to be lost changes.
            or_absent(fs::remove_dir_all(&folder))
                .map_err(|source| WorkspaceError::new("remove", &folder, source))?;
            return Err(error);
        }
        self.of.push(lower);
        Ok(folder)
    }

    /// Imports the task's changes, once the container is gone. Otherwise, and if an import fails,
    /// everything is kept for the next sweep.
    pub(crate) fn end(self, is_gone: bool) -> GitChanges {
        let Some(folder) = self.folder.as_ref().filter(|_| !self.is_empty()) else {
            return GitChanges::default();
        };
        if is_gone || self.are_unused() {
            return import(folder, Patience::Whole);
        }
        let unseen = self.unseen("the task's container may still be at work");
        // While this program lives, no other one treats them as those of a killed execution.
        self.lock.into_iter().for_each(std::mem::forget);
        unseen
    }

    /// The changes to report if nothing could be imported.
    pub(crate) fn unseen(&self, problem: &str) -> GitChanges {
        let kept_in = self.folder.clone().unwrap_or_default();
        let failed = self.of.iter().map(|path| FailedImport {
            path: path.clone(),
            problem: problem.to_owned(),
            kept_in: kept_in.clone(),
        });
        GitChanges { failed: failed.collect(), ..GitChanges::default() }
    }

    fn are_unused(&self) -> bool {
        let is_unused =
            |folder: &Path| matches!(View::read(folder), Ok(Some(view)) if view.is_unused(folder));
        self.folder.as_deref().is_none_or(|all| folders(all).iter().all(|folder| is_unused(folder)))
    }
}

impl Other {
    /// The execution that owns this folder; `None` if it has not begun, or has ended.
    fn living(folder: &Path) -> Option<Self> {
        let path = folder.join(TREES);
        let trees = record::read(&path).unwrap_or_else(|_| Some(vec![PathText(PathBuf::from("/"))]))?;
        if !matches!(lock(folder), Ok(None)) {
            return None;
        }
        let views = folders(folder).into_iter().filter_map(|view| View::read(&view).ok()?);
        let views = views.map(|view| (view.tree.0.join(&view.path.0), view.inode)).collect();
        // Otherwise it ended meanwhile, and removed its views.
        path.exists().then_some(Self { trees, views })
    }

    fn can_write(&self, folder: &Path, inode: u64) -> bool {
        let is_in_tree = self.trees.iter().any(|tree| folder.starts_with(&tree.0));
        is_in_tree && !self.views.iter().any(|(view, number)| view == folder && *number == inode)
    }
}

impl View {
    /// The record of a view; `None` if there is none.
    fn read(folder: &Path) -> Result<Option<Self>, WorkspaceError> {
        let path = folder.join(RECORD);
        let view: Option<Self> = record::read(&path)?;
        if view.as_ref().is_some_and(|view| view.version != VERSION) {
            return Err(WorkspaceError::unreadable(&path, "another version of this program wrote it"));
        }
        Ok(view)
    }

    fn write(&self, folder: &Path) -> Result<(), WorkspaceError> {
        record::write(&folder.join(RECORD), self)
    }

    /// The folder of one of its repositories in the upper layer.
    fn inner<'a>(&self, known: &'a Known) -> &'a Path {
        known.path().strip_prefix(&self.path.0).unwrap_or(known.path())
    }

    /// Whether no task wrote to the view stored in `folder`.
    fn is_unused(&self, folder: &Path) -> bool {
        let upper = Tree::open(&folder.join(UPPER));
        upper.is_ok_and(|upper| self.known.iter().all(|known| known.is_unused(&upper, self.inner(known))))
    }

    /// Imports the view stored in `folder`, each repository once; returns whether the import is
    /// complete.
    fn import(mut self, folder: &Path, run: &RunName, patience: Patience, git: &mut GitChanges) -> bool {
        if let Err(error) = trash::empty(folder) {
            tracing::warn!(%error, "failed to remove a killed import's own folder");
        }
        let mut waiting = Vec::new();
        let slow = folder.join(SLOW);
        let is_slow = patience == Patience::Start && slow.exists();
        if patience == Patience::Start && !is_slow {
            // An import that ends this process counts as slow.
            let _ = fs::write(&slow, "");
        }
        let begun = Instant::now();
        // Inner repositories before those that name their commits.
        while let Some(known) = self.known.pop() {
            let done = if is_slow {
                let problem = "it took long to fail before, so no start tries it again";
                Err(WorkspaceError::new("import", known.common(), io::Error::other(problem)))
            } else {
                self.one(&known, folder, run, patience)
            };
            match done {
                Ok(None) => {}
                Ok(Some(changes)) => {
                    git.repositories.push(changes);
                    let known = self.known.iter().chain(waiting.iter().rev()).cloned().collect();
                    let rest = Self { tree: self.tree.clone(), path: self.path.clone(), known, ..self };
                    if let Err(error) = rest.write(folder) {
                        tracing::warn!(%error, "failed to record that a repository was imported");
                    }
                }
                Err(error) => {
                    git.failed.push(FailedImport {
                        path: known.common().to_owned(),
                        problem: chain(&error),
                        kept_in: folder.to_owned(),
                    });
                    waiting.push(known);
                }
            }
        }
        if !waiting.is_empty() && begun.elapsed() > Patience::LONG {
            // Without the marker, the next start would wait as long again.
            let _ = fs::write(&slow, "");
        } else if patience == Patience::Start && !is_slow {
            let _ = fs::remove_file(&slow);
        }
        waiting.is_empty()
    }

    fn one(
        &self,
        known: &Known,
        folder: &Path,
        run: &RunName,
        patience: Patience,
    ) -> Result<Option<RepositoryChanges>, WorkspaceError> {
        let inner = self.inner(known);
        let common = || {
            let viewed = Tree::open(&self.tree.0)?.inner(&self.path.0)?;
            let is_it = Facts::of(viewed.folder(Path::new(""))?)?.stamp.inode == self.inode;
            if is_it { viewed.inner(inner) } else { Err(io::ErrorKind::NotFound.into()) }
        };
        let Some(opened) = known.open(common, &folder.join(UPPER), inner)? else {
            return Ok(None);
        };
        let import = opened.prepare_within(run, folder, &patience.limits())?;
        let path = known.common().to_owned();
        let would = RepositoryChanges { path: path.clone(), report: import.report().clone(), waits: false };
        if would.is_empty() {
            return Ok(None);
        }
        let later = known.work_tree().and_then(|work_tree| {
            let tree = Tree::open(&self.tree.0).ok()?;
            hint(&tree, work_tree, import.recorded(), &Protection::default(), |_| false)
        });
        let mut report = import.commit().map_err(|error| match error {
            sandbox_host_git::Error::Unfinished { source } => {
                WorkspaceError::Unfinished { path: path.clone(), source }
            }
            error => WorkspaceError::repository("write to", &path, error),
        })?;
        report.hints.extend(later);
        Ok(Some(RepositoryChanges { report, ..would }))
    }
}

/// Imports the changes of executions whose program was killed, from `folder`, which has the views
/// of all: call it when their containers are gone. Blocks.
pub(crate) fn recover(folder: &Path, patience: Patience) -> GitChanges {
    let mut git = GitChanges::default();
    if folder.exists()
        && let Err(error) = trash::empty(folder)
    {
        tracing::warn!(%error, "failed to remove views of repositories that are no longer needed");
    }
    for views in folders(folder) {
        // Otherwise it is just being created, or gone.
        if !views.join(TREES).exists() && folders(&views).is_empty() {
            continue;
        }
        match lock(&views) {
            Ok(Some(_lock)) => git = git.and(import(&views, patience)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a task's changes in repositories are not examined"),
        }
    }
    git
}

/// Imports all views in `folder`, and removes those that are complete.
fn import(folder: &Path, patience: Patience) -> GitChanges {
    let mut git = GitChanges::default();
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let run = run(name);
    let mut is_done = true;
    let has_begun = folder.join(TREES).exists();
    for view in folders(folder) {
        let problem = match View::read(&view) {
            Ok(Some(record)) => {
                is_done &= record.import(&view, &run, patience, &mut git);
                continue;
            }
            // Its creation was interrupted.
            Ok(None) if !has_begun => continue,
            Ok(None) => "the repository's state when the task began is unknown".to_owned(),
            Err(error) => chain(&error),
        };
        is_done = false;
        git.failed.push(FailedImport { path: view.clone(), problem, kept_in: view });
    }
    if is_done
        && let Some(all) = folder.parent()
        && let Err(error) = trash::put(all, &[name]).and_then(|()| trash::empty(all))
    {
        tracing::warn!(%error, "failed to remove views of repositories that are no longer needed");
    }
    git
}

fn lock(folder: &Path) -> Result<Option<FileLock>, WorkspaceError> {
    let path = folder.join(LOCK);
    FileLock::try_exclusive(&path).map_err(|source| WorkspaceError::new("lock", &path, source))
}

/// The folders in `folder`, sorted by name, except for trash.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir()) && !trash::is_trash(&entry.file_name())
    });
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// The messages of an error and its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.extend([": ", &error.to_string()]);
        cause = error.source();
    }
    text
}
