//! The folder of a copy, its beginning, and its present user.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sandbox_files::tree::{Kind, Tree};
use sandbox_files::{FileLock, create_folder, or_absent};

use super::super::error::WorkspaceError;
use super::super::git_view::{GitChanges, any_run, git_changes};
use super::super::names::Names;
use super::super::overlay::{UPPER, WORK};
use super::super::path_text::PathText;
use super::super::protection::Protection;
use super::super::trash;
use super::apply::{Applied, ApplyOptions};
use super::change::Change;
use super::changes::Comparison;
use super::finish::{abandon, recover};
use super::imports::Imports;
use super::notes::{
    BEGUN, Begun, TAKEN, begin, forget, lock, note_beginning, now, read_begun, remove_notes, write_begun,
};
use super::places::GIT;
use super::repositories::Repositories;
use super::{apply, journal, repositories};

/// A copy-on-write view of a work tree, in its own folder.
/// [`Mount::copy_on_write`](crate::Mount::copy_on_write) creates one when a task starts; a later
/// task with the same folder continues with it.
#[derive(Debug)]
pub struct WorkspaceCopy {
    folder: PathBuf,
    begun: Begun,
}

/// The folder of the view of a repository outside the tree, for a copy in `folder`.
pub(crate) fn git_folder(folder: &Path) -> PathBuf {
    folder.join(GIT)
}

/// Creates a view of the repository at `common` in `folder`, inside that of a taken copy; `own` is
/// the work tree's own folder in it. Continues with one that has changes of tasks.
pub(crate) fn take_outside(common: &Path, own: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    if repositories::is_used_outside(folder) {
        return Ok(());
    }
    create_folder(folder, 0o700).map_err(|source| WorkspaceError::new("create", folder, source))?;
    begin(common, folder)?;
    repositories::note_outside(common, own, folder)
}

/// The task's and the work tree's version of a file; `None` if there is no file.
pub type Versions = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The copy of a running task: nobody else uses it.
#[derive(Debug)]
pub(crate) struct CopyInUse {
    _lock: Arc<FileLock>,
    taken: PathBuf,
    beginning: Option<JoinHandle<Result<(), WorkspaceError>>>,
}

impl CopyInUse {
    /// Releases the copy. Call it when the task's container is gone.
    pub(crate) fn give_back(self) {
        if let Err(error) = or_absent(fs::remove_file(&self.taken)) {
            tracing::warn!(%error, "failed to record that a task no longer uses a copy");
        }
    }

    /// Waits until the records are complete that later reveal the host's changes. No task may begin
    /// before. Blocks.
    pub(crate) fn wait(&mut self) -> Result<(), WorkspaceError> {
        let Some(beginning) = self.beginning.take() else {
            return Ok(());
        };
        beginning.join().unwrap_or_else(|_| {
            let problem = "listing the work tree failed";
            Err(WorkspaceError::unreadable(Path::new(BEGUN), problem))
        })
    }
}

impl WorkspaceCopy {
    /// The copy in `folder`; `None` if there is none. Finishes or undoes a crashed
    /// [`apply`](Self::apply).
    ///
    /// # Errors
    ///
    /// If it cannot be read, or a task is using it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Option<Self>, WorkspaceError> {
        let folder = folder.into();
        Self::settle_in(&folder)?;
        Self::read(&folder)
    }

    /// Finishes or undoes a crashed [`apply`](Self::apply) of the copy in `folder`, if there is one. What
    /// it had staged is in the tree until then, where a task that works on the tree itself could change it.
    ///
    /// # Errors
    ///
    /// If that fails, or an apply is active.
    pub fn settle_in(folder: &Path) -> Result<(), WorkspaceError> {
        if folder.exists() && journal::exists(folder) {
            let _lock = lock(folder, folder)?;
            recover(folder, &mut |_| true)?;
        }
        Ok(())
    }

    /// Takes the copy for a task, and begins one if there is none. Blocks.
    pub(crate) fn take(tree: &Path, folder: &Path) -> Result<CopyInUse, WorkspaceError> {
        let failed = |source| WorkspaceError::new("create", folder, source);
        create_folder(folder, 0o700).map_err(failed)?;
        let held = Arc::new(lock(folder, tree)?);
        recover(folder, &mut |_| true)?;
        let conflicts = match Self::read(folder)? {
            Some(copy) if copy.tree() == tree && folder.join(UPPER).exists() => copy.note_conflicts()?,
            // A copy that could not be discarded is begun again.
            Some(copy) if copy.tree() != tree => {
                let problem = format!("it is a copy of `{}`", copy.tree().display());
                return Err(WorkspaceError::unreadable(folder, problem));
            }
            _ => {
                begin(tree, folder)?;
                BTreeSet::new()
            }
        };
        let since = now(folder)?;
        let taken = folder.join(TAKEN);
        File::create(&taken).map_err(|source| WorkspaceError::new("create", &taken, source))?;
        let (tree, folder, lock) = (tree.to_owned(), folder.to_owned(), Arc::clone(&held));
        let beginning = thread::spawn(move || {
            let noted = note_beginning(&tree, &folder, since, conflicts);
            drop(lock);
            noted
        });
        Ok(CopyInUse { _lock: held, taken, beginning: Some(beginning) })
    }

    /// A copy of `tree` in `folder` with changes that no task of this host made. `fill` creates the folder
    /// that it gets as the upper layer of an overlay, and returns the paths that changed in `tree`, too,
    /// since those changes began. First finishes or undoes a crashed [`apply`](Self::apply). Blocks.
    ///
    /// # Errors
    ///
    /// If there is a copy in `folder`, it cannot be written or is in use, `tree` cannot be listed, or
    /// `fill` fails.
    pub fn adopt<E: From<WorkspaceError>>(
        tree: &Path,
        folder: &Path,
        fill: impl FnOnce(&Path) -> Result<BTreeSet<PathBuf>, E>,
    ) -> Result<Self, E> {
        create_folder(folder, 0o700).map_err(|source| WorkspaceError::new("create", folder, source))?;
        let _lock = lock(folder, tree)?;
        recover(folder, &mut |_| true)?;
        if let Some(copy) = Self::read(folder)? {
            return Err(WorkspaceError::Busy { tree: copy.begun.tree }.into());
        }
        forget(folder)?;
        // What changes in the tree from here on is a conflict.
        let since = now(folder)?;
        let conflicts = fill(&folder.join(UPPER))?;
        note_beginning(tree, folder, since, conflicts)?;
        let copy = Self::read(folder)?;
        Ok(copy.ok_or_else(|| WorkspaceError::unreadable(folder, "it has just been created"))?)
    }

    /// Whether a task or another command is using the copy in `folder`.
    ///
    /// # Errors
    ///
    /// If that cannot be determined.
    pub fn is_in_use(folder: &Path) -> Result<bool, WorkspaceError> {
        match folder.exists().then(|| lock(folder, folder)) {
            Some(Err(WorkspaceError::Busy { .. })) => Ok(true),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Ok(false),
        }
    }

    /// Whether the container of the last task may still be running: the sandbox was killed before
    /// it was gone. `Sandbox::sweep` removes it. Apply or discard the copy only afterwards.
    #[must_use]
    pub fn was_interrupted(&self) -> bool {
        self.folder.join(TAKEN).exists()
    }

    fn read(folder: &Path) -> Result<Option<Self>, WorkspaceError> {
        let begun = read_begun(folder)?;
        Ok(begun.map(|begun| Self { folder: folder.to_owned(), begun }))
    }

    /// The paths that have changed on both sides so far. From now on, a task sees the host's
    /// present state.
    fn note_conflicts(mut self) -> Result<BTreeSet<PathBuf>, WorkspaceError> {
        let changes = self.comparison()?.differences(&Protection::none())?.changes;
        let conflicts = changes.into_iter().filter(|change| change.conflict);
        let conflicts: BTreeSet<PathBuf> = conflicts.map(|change| change.path).collect();
        if conflicts.len() != self.begun.conflicts.len() {
            // This comes before the names and their time are replaced.
            self.begun.conflicts = conflicts.iter().cloned().map(PathText).collect();
            write_begun(&self.begun, &self.folder)?;
        }
        Ok(conflicts)
    }

    /// The work tree.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.begun.tree
    }

    /// The differences from the current work tree, sorted by path, except for git's files in
    /// repositories. Changes that `protection` covers are marked as withheld. Blocks.
    ///
    /// # Errors
    ///
    /// If the copy or the tree cannot be read; [`WorkspaceError::Unreadable`] if the task created
    /// folders deeper than 200.
    pub fn changes(&self, protection: &Protection) -> Result<Vec<Change>, WorkspaceError> {
        Ok(self.waiting(protection)?.0)
    }

    /// The task's changes in repositories. Runs the host's git on the task's files, within limits.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// If the copy or the tree cannot be read, or the task's files exceed the limits.
    pub fn git_changes(&self, protection: &Protection) -> Result<GitChanges, WorkspaceError> {
        self.waiting(protection)?.1
    }

    /// The task's versions of the entries that it changed, in the folders that contain them. What it
    /// removed is there as a device.
    ///
    /// # Errors
    ///
    /// If the copy or the tree cannot be opened.
    pub fn changed_tree(&self) -> Result<Tree, WorkspaceError> {
        Ok(self.comparison()?.upper)
    }

    /// Both kinds of changes. Those in repositories may be unknown while those of files are known.
    ///
    /// # Errors
    ///
    /// If the copy or the tree cannot be read.
    pub fn waiting(
        &self,
        protection: &Protection,
    ) -> Result<(Vec<Change>, Result<GitChanges, WorkspaceError>), WorkspaceError> {
        let comparison = self.comparison()?;
        let opened = comparison.opened(&self.folder)?;
        let prepared = Imports::prepare(&opened, &any_run(), &self.folder);
        let (mut imports, failed) = match prepared {
            Ok(imports) => (imports, None),
            Err(error) => (Imports::default(), Some(error)),
        };
        let judged = comparison.judged(&opened, &mut imports, protection)?;
        let git = match failed {
            Some(error) => Err(error),
            None => git_changes::read(&self.folder).map(|settings| GitChanges {
                repositories: imports.reports(&judged.waiting),
                left: judged.left,
                settings,
                failed: Vec::new(),
            }),
        };
        Ok((judged.changes, git))
    }

    /// Applies the changes to the work tree, and imports the task's changes in repositories: all of
    /// them, or none if anything fails. It removes the copy, unless changes were withheld that
    /// could be applied later: it keeps those, and settings of git. Blocks.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Conflict`] if the host changed the same paths since the first task began.
    /// After any other error, such as a full disk, the tree is unchanged, except for
    /// [`WorkspaceError::HalfDone`] and [`WorkspaceError::Unfinished`].
    pub fn apply(self, options: &ApplyOptions) -> Result<Applied, WorkspaceError> {
        let _lock = lock(&self.folder, self.tree())?;
        recover(&self.folder, &mut |_| true)?;
        if let Err(error) = trash::empty(&self.folder) {
            tracing::warn!(%error, "failed to remove a killed apply's own folder");
        }
        apply::apply(&self.comparison()?, &self.folder, options, &mut |_| true)
    }

    /// Discards the changes, as [`discard_in`](Self::discard_in) does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn discard(self) -> Result<(), WorkspaceError> {
        Self::discard_in(self.folder).map(drop)
    }

    /// Discards the changes of the copy in `folder`, once the container that made them is gone;
    /// returns whether there is one. Finishes or undoes a crashed [`apply`](Self::apply) first, as
    /// far as possible. Blocks.
    ///
    /// # Errors
    ///
    /// If the folder cannot be emptied, or a task is using it. In the first case the copy can only
    /// be discarded again, or begun again by a task.
    pub fn discard_in(folder: impl Into<PathBuf>) -> Result<bool, WorkspaceError> {
        let folder = folder.into();
        if !folder.exists() {
            return Ok(false);
        }
        let _lock = lock(&folder, &folder)?;
        if let Err(error) = recover(&folder, &mut |_| true) {
            if !abandon(&folder)? {
                return Err(error);
            }
            tracing::warn!(%error, "abandoned an interrupted apply");
        }
        let is_there = Self::read(&folder)?.is_some();
        trash::put(&folder, &[UPPER, WORK, GIT])?;
        trash::empty(&folder)?;
        remove_notes(&folder)?;
        Ok(is_there)
    }

    /// At most `limit` bytes of both versions of the file `path`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub fn versions(&self, path: &Path, limit: u64) -> Result<Versions, WorkspaceError> {
        let failed = |source| WorkspaceError::new("read", path, source);
        let comparison = self.comparison()?;
        let read = |tree: &Tree| -> io::Result<Option<Vec<u8>>> {
            use io::Read as _;
            if tree.facts(path)?.is_none_or(|facts| facts.kind != Kind::File) {
                return Ok(None);
            }
            let mut content = Vec::new();
            tree.file(path)?.take(limit).read_to_end(&mut content)?;
            Ok(Some(content))
        };
        Ok((read(&comparison.upper).map_err(failed)?, read(&comparison.host).map_err(failed)?))
    }

    pub(super) fn comparison(&self) -> Result<Comparison, WorkspaceError> {
        let upper = self.folder.join(UPPER);
        if !upper.exists() {
            return Err(WorkspaceError::unreadable(
                &self.folder,
                "it was being thrown away; discard it again",
            ));
        }
        Ok(Comparison {
            upper: Tree::open(&upper).map_err(|source| WorkspaceError::new("open", &upper, source))?,
            host: Tree::open(self.tree())
                .map_err(|source| WorkspaceError::new("open", self.tree(), source))?,
            names: Names::read(&self.folder)?,
            since: self.begun.since,
            conflicts: self.begun.conflicts.iter().map(|path| path.0.clone()).collect(),
            repositories: Repositories::read(&self.folder)?,
        })
    }
}
