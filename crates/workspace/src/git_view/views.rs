//! Views of repositories for a task that works on the tree itself: made before it starts, and imported when nothing of it lives any more.
//!
//! An execution has a folder of its own for them, which is locked as long as it lives. What one leaves whose program was killed is found
//! by [`recover`].

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

/// What is known of a view, in its folder.
const RECORD: &str = "view.json";
/// Held as long as the execution lives.
const LOCK: &str = "lock";
/// Where the execution can write: it is there before a task starts, and when all its views are.
const TREES: &str = "trees.json";
/// In the folder of a view whose import failed only after a long time.
const SLOW: &str = "slow";
/// What this program writes and understands.
const VERSION: u32 = 1;

/// How much is done for what an execution left that was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// What can be done at the start of something else: 30 seconds for each repository, and nothing that took long and failed before.
    Start,
    /// All of it.
    Whole,
}

impl Patience {
    /// What a start can wait for, in another project too.
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
    /// Their folder; `None` where none can be made.
    folder: Option<PathBuf>,
    lock: Option<FileLock>,
    /// The folders that they are views of.
    of: Vec<PathBuf>,
    /// What the task sees already, in a view or read-only.
    seen: Vec<Identity>,
    others: Vec<Other>,
}

/// Another execution that lives.
#[derive(Debug)]
struct Other {
    /// Where it can write.
    trees: Vec<PathText>,
    /// Folders of repositories, with their numbers, in whose place it has views.
    views: BTreeSet<(PathBuf, u64)>,
}

/// A view of the folder of a repository, which may have others in it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct View {
    version: u32,
    /// The work tree that it lies in; itself where that is elsewhere.
    tree: PathText,
    /// Its path in that.
    path: PathText,
    /// The number of the folder: a task may put another one in its place.
    inode: u64,
    /// Those that are still to be imported, in the order of their paths.
    known: Vec<Known>,
}

impl Views {
    /// Views that are kept in `folder`, which need not be there yet; none without one.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, lock: None, of: Vec::new(), seen: Vec::new(), others: Vec::new() }
    }

    /// Whether no other execution has to know of this one.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock.is_none()
    }

    /// Finds out which other executions live. To be called when it is known which repositories there are: whichever of them one made, it had
    /// said before where it can write.
    pub(crate) fn look_around(&mut self) {
        let all = self.folder.as_deref().and_then(Path::parent).map(folders).unwrap_or_default();
        let others = all.iter().filter(|folder| Some(*folder) != self.folder.as_ref());
        self.others = others.filter_map(|folder| Other::living(folder)).collect();
    }

    /// Says where the task will be able to write, before it starts.
    pub(crate) fn announce(&mut self, trees: Vec<PathBuf>) -> Result<(), WorkspaceError> {
        let Some(all) = self.folder.clone() else { return Ok(()) };
        self.lock(&all)?;
        record::write(&all.join(TREES), &trees.into_iter().map(PathText).collect::<Vec<_>>())
    }

    /// Makes their folder, which is this execution's as long as that lives.
    fn lock(&mut self, all: &Path) -> Result<(), WorkspaceError> {
        if self.lock.is_none() {
            create_folder(all, 0o700).map_err(|source| WorkspaceError::new("make", all, source))?;
            self.lock = Some(lock(all)?.ok_or_else(|| WorkspaceError::Busy { tree: all.to_owned() })?);
        }
        Ok(())
    }

    /// What is mounted at `place` over the folder `path` of `tree`, in which the repositories `found` are, each with its work tree: a view,
    /// or the folder itself, read-only, where there can be none or is one already.
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

    /// What is mounted in the place of `mount`, which is a repository outside of the work tree whose own folder in it is `own`.
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
        // It could lead the import elsewhere.
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
                    "the task can write nothing in this repository: no view of it can be made"
                );
                read_only()
            }
        }
    }

    /// Makes the folders for a view, of which nothing is there yet; `known` puts into the upper one what the task sees from the start.
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
        create_folder(&folder, 0o700).map_err(|source| WorkspaceError::new("make", &folder, source))?;
        let made =
            overlay::make(&lower, &folder).and_then(|()| known(&folder.join(UPPER))).and_then(|known| {
                let (tree, path) = (PathText(tree.to_owned()), PathText(path.to_owned()));
                View { version: VERSION, tree, path, inode, known }.write(&folder)
            });
        if let Err(error) = made {
            // Without a record, it would look as if that had been lost.
            or_absent(fs::remove_dir_all(&folder))
                .map_err(|source| WorkspaceError::new("remove", &folder, source))?;
            return Err(error);
        }
        self.of.push(lower);
        Ok(folder)
    }

    /// Imports what the task did, once the container is gone. Else, and where an import fails, everything stays for the next sweep.
    pub(crate) fn end(self, is_gone: bool) -> GitChanges {
        let Some(folder) = self.folder.as_ref().filter(|_| !self.is_empty()) else {
            return GitChanges::default();
        };
        if is_gone || self.are_unused() {
            return import(folder, Patience::Whole);
        }
        let unseen = self.unseen("the task's container may still be at work");
        // As long as this program lives, nobody takes them for those of one that was killed.
        self.lock.into_iter().for_each(std::mem::forget);
        unseen
    }

    /// What is reported where nothing could be imported.
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
    /// `None` where the one whose folder this is has not begun, or is no more.
    fn living(folder: &Path) -> Option<Self> {
        let path = folder.join(TREES);
        let trees = record::read(&path).unwrap_or_else(|_| Some(vec![PathText(PathBuf::from("/"))]))?;
        if !matches!(lock(folder), Ok(None)) {
            return None;
        }
        let views = folders(folder).into_iter().filter_map(|view| View::read(&view).ok()?);
        let views = views.map(|view| (view.tree.0.join(&view.path.0), view.inode)).collect();
        // Else it ended meanwhile, and took its views with it.
        path.exists().then_some(Self { trees, views })
    }

    fn can_write(&self, folder: &Path, inode: u64) -> bool {
        let is_in_tree = self.trees.iter().any(|tree| folder.starts_with(&tree.0));
        is_in_tree && !self.views.iter().any(|(view, number)| view == folder && *number == inode)
    }
}

impl View {
    /// `None` where there is none.
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

    /// Whether no task wrote anything in the one that is kept in `folder`.
    fn is_unused(&self, folder: &Path) -> bool {
        let upper = Tree::open(&folder.join(UPPER));
        upper.is_ok_and(|upper| self.known.iter().all(|known| known.is_unused(&upper, self.inner(known))))
    }

    /// Imports what is kept in `folder`, each repository once; returns whether all of it came.
    fn import(mut self, folder: &Path, run: &RunName, patience: Patience, git: &mut GitChanges) -> bool {
        if let Err(error) = trash::empty(folder) {
            tracing::warn!(%error, "what an import that was killed had kept for itself cannot be removed");
        }
        let mut waiting = Vec::new();
        let slow = folder.join(SLOW);
        let is_slow = patience == Patience::Start && slow.exists();
        if patience == Patience::Start && !is_slow {
            // An import that ends this process counts as one that took long.
            let _ = fs::write(&slow, "");
        }
        let begun = Instant::now();
        // The inner ones before those that name their commits.
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
                        tracing::warn!(%error, "that a repository was imported cannot be noted");
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
            // Without it, the next start waits as long again.
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

/// Imports what executions left in `folder`, that of the views of all, whose program was killed: to be called when their containers are
/// gone. Blocks.
pub(crate) fn recover(folder: &Path, patience: Patience) -> GitChanges {
    let mut git = GitChanges::default();
    if folder.exists()
        && let Err(error) = trash::empty(folder)
    {
        tracing::warn!(%error, "views of repositories that are no longer needed cannot be removed");
    }
    for views in folders(folder) {
        // Else it is just being made, or gone.
        if !views.join(TREES).exists() && folders(&views).is_empty() {
            continue;
        }
        match lock(&views) {
            Ok(Some(_lock)) => git = git.and(import(&views, patience)),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "what a task did in repositories is not looked at"),
        }
    }
    git
}

/// Imports all views in `folder`, and removes those that came.
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
            // It was being made.
            Ok(None) if !has_begun => continue,
            Ok(None) => "what the repository was when the task began is not known".to_owned(),
            Err(error) => chain(&error),
        };
        is_done = false;
        git.failed.push(FailedImport { path: view.clone(), problem, kept_in: view });
    }
    if is_done
        && let Some(all) = folder.parent()
        && let Err(error) = trash::put(all, &[name]).and_then(|()| trash::empty(all))
    {
        tracing::warn!(%error, "views of repositories that are no longer needed cannot be removed");
    }
    git
}

fn lock(folder: &Path) -> Result<Option<FileLock>, WorkspaceError> {
    let path = folder.join(LOCK);
    FileLock::try_exclusive(&path).map_err(|source| WorkspaceError::new("lock", &path, source))
}

/// The folders in `folder`, but for those that only wait to be removed, in the order of their names.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir()) && !trash::is_trash(&entry.file_name())
    });
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

/// An error with what caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.extend([": ", &error.to_string()]);
        cause = error.source();
    }
    text
}
