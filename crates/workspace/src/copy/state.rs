//! Where a copy is kept, since when, and who works with it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sandbox_files::tree::{Kind, Tree};
use sandbox_files::{FileLock, create_folder, or_absent};

use super::super::error::WorkspaceError;
use super::super::names::Names;
use super::super::protection::Protection;
use super::apply::{Applied, ApplyOptions};
use super::change::Change;
use super::changes::Comparison;
use super::finish::recover;
use super::notes::{
    BEGUN, Begun, TAKEN, UPPER, WORK, begin, lock, note_beginning, now, read_begun, remove_notes, write_begun,
};
use super::path_text::PathText;
use super::repository::{OUTSIDE, hold_together, hold_whole};
use super::step::hold_steps;
use super::{apply, journal, trash};

/// A copy-on-write view of a work tree, in a folder of its own. [`Mount::copy_on_write`](crate::Mount::copy_on_write) makes one
/// when a task starts; a later task with the same folder goes on with it.
#[derive(Debug)]
pub struct WorkspaceCopy {
    folder: PathBuf,
    begun: Begun,
    /// The copy of the repository, where that is kept outside of the work tree.
    git: Option<Box<WorkspaceCopy>>,
}

/// Where the copy of the repository is kept that belongs to a copy in `folder`.
pub(crate) fn git_folder(folder: &Path) -> PathBuf {
    folder.join("git")
}

/// A file as the task left it, and as it is in the work tree; `None` where there is no file.
pub type Versions = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The copy of a running task: nothing else touches it.
#[derive(Debug)]
pub(crate) struct CopyInUse {
    _lock: Arc<FileLock>,
    taken: PathBuf,
    beginning: Option<JoinHandle<Result<(), WorkspaceError>>>,
}

impl CopyInUse {
    /// To be called when the container of the task is gone.
    pub(crate) fn give_back(self) {
        if let Err(error) = or_absent(fs::remove_file(&self.taken)) {
            tracing::warn!(%error, "that a task no longer works with a copy cannot be noted");
        }
    }

    /// Waits until everything is noted that later shows what the host changed since. Until then no task may begin. Blocks.
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
    /// The copy that is kept in `folder`; `None` when there is none. Finishes or undoes what a crashed [`apply`](Self::apply) left.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or a task works with it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Option<Self>, WorkspaceError> {
        let folder = folder.into();
        let git = git_folder(&folder);
        for folder in [&git, &folder] {
            if folder.exists() && journal::exists(folder) {
                let _lock = lock(folder, folder)?;
                recover(folder, &mut |_| true)?;
            }
        }
        let Some(copy) = Self::read(&folder)? else {
            return Ok(None);
        };
        Ok(Some(Self { git: Self::read(&git)?.map(Box::new), ..copy }))
    }

    /// Takes the copy for a task, and begins it where there is none. Blocks.
    pub(crate) fn take(tree: &Path, folder: &Path) -> Result<CopyInUse, WorkspaceError> {
        let failed = |source| WorkspaceError::new("make", folder, source);
        create_folder(folder, 0o700).map_err(failed)?;
        let held = Arc::new(lock(folder, tree)?);
        recover(folder, &mut |_| true)?;
        let conflicts = match Self::read(folder)? {
            Some(copy) if copy.tree() == tree && folder.join(UPPER).exists() => copy.note_conflicts()?,
            // One that could not be discarded is begun again.
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
        File::create(&taken).map_err(|source| WorkspaceError::new("make", &taken, source))?;
        let (tree, folder, lock) = (tree.to_owned(), folder.to_owned(), Arc::clone(&held));
        let beginning = thread::spawn(move || {
            let noted = note_beginning(&tree, &folder, since, conflicts);
            drop(lock);
            noted
        });
        Ok(CopyInUse { _lock: held, taken, beginning: Some(beginning) })
    }

    /// Whether a task, or another command, works with the copy that is kept in `folder`.
    ///
    /// # Errors
    ///
    /// When that cannot be found out.
    pub fn is_in_use(folder: &Path) -> Result<bool, WorkspaceError> {
        match folder.exists().then(|| lock(folder, folder)) {
            Some(Err(WorkspaceError::Busy { .. })) => Ok(true),
            Some(Err(error)) => Err(error),
            Some(Ok(_)) | None => Ok(false),
        }
    }

    /// Whether the container of the task that worked with it last may still be at work: the sandbox was killed before that was gone.
    /// `Sandbox::sweep` removes it. Apply and discard the copy only afterwards.
    #[must_use]
    pub fn was_interrupted(&self) -> bool {
        self.folder.join(TAKEN).exists()
    }

    fn read(folder: &Path) -> Result<Option<Self>, WorkspaceError> {
        let begun = read_begun(folder)?;
        Ok(begun.map(|begun| Self { folder: folder.to_owned(), begun, git: None }))
    }

    /// What changed on both sides until now. From now on, what a task sees of the host is what the host has now.
    fn note_conflicts(mut self) -> Result<BTreeSet<PathBuf>, WorkspaceError> {
        let changes = self.changes(&Protection::none())?;
        let conflicts = changes.into_iter().filter(|change| change.conflict);
        let conflicts: BTreeSet<PathBuf> = conflicts.map(|change| change.path).collect();
        if conflicts.len() != self.begun.conflicts.len() {
            // Before the names and the moment that they were found with are replaced.
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

    /// What differs from the work tree as it is now, in the order of paths. What `protection` covers is marked as held back. Blocks.
    ///
    /// # Errors
    ///
    /// When copy or tree cannot be read; [`WorkspaceError::Unreadable`] where the task made folders deeper than 200.
    pub fn changes(&self, protection: &Protection) -> Result<Vec<Change>, WorkspaceError> {
        let ours = self.comparison()?;
        let git = self.git.as_ref().map(|git| git.git_comparison()).transpose()?;
        let mut changes = ours.changes(protection)?;
        if let Some(git) = &git {
            let of_git = git.changes(&Protection::default().of_git_folder())?;
            changes.extend(
                of_git
                    .into_iter()
                    .map(|change| Change { path: Path::new(OUTSIDE).join(&change.path), ..change }),
            );
            changes.sort_by(|a, b| a.path.cmp(&b.path));
        }
        hold_steps(&mut changes, &ours, git.as_ref());
        hold_together(&mut changes);
        hold_whole(&mut changes);
        Ok(changes)
    }

    /// Brings the changes into the work tree: all of them, or none when anything fails. The copy is gone then, but where changes
    /// were held back that could be applied: it keeps those. Blocks.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Conflict`] when the host changed the same paths since the first task began; whatever else goes wrong, be it
    /// that the new files do not fit on the disk, the tree is as it was, except for [`WorkspaceError::HalfDone`].
    pub fn apply(self, options: &ApplyOptions) -> Result<Applied, WorkspaceError> {
        let _lock = lock(&self.folder, self.tree())?;
        recover(&self.folder, &mut |_| true)?;
        let changes = self.changes(&options.protection)?;
        let Some(git) = &self.git else {
            return apply::apply(&self.comparison()?, changes, &self.folder, options, &mut |_| true);
        };
        let (of_git, changes): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| is_outside(&change.path));
        let of_git: Vec<Change> = of_git.into_iter().map(without_place).collect();
        // All that can be refused is refused before anything is applied. What is left when the first succeeds and the second fails is
        // still in the copy.
        let (ours, gits) = (self.comparison()?, git.git_comparison()?);
        apply::check(&ours, changes.clone(), options)?;
        apply::check(&gits, of_git.clone(), options)?;
        let applied_of_git = apply::apply(&gits, of_git, &git.folder, options, &mut |_| true)?;
        let applied = apply::apply(&ours, changes, &self.folder, options, &mut |_| true)?;
        let is_left = |folder: &Path| Ok::<_, WorkspaceError>(read_begun(folder)?.is_some());
        if is_left(&git.folder)? && !is_left(&self.folder)? {
            // What was held back of the repository is found through the copy of the work tree.
            begin(self.tree(), &self.folder)?;
            note_beginning(self.tree(), &self.folder, now(&self.folder)?, BTreeSet::new())?;
        }
        Ok(Applied::both(applied, applied_of_git))
    }

    /// Throws the changes away, once the container that made them is gone. Blocks.
    ///
    /// # Errors
    ///
    /// When the folder cannot be emptied, or a task works with it. The first leaves a copy that can only be discarded again, or begun
    /// again by a task.
    pub fn discard(self) -> Result<(), WorkspaceError> {
        if let Some(git) = self.git {
            git.discard()?;
        }
        let _lock = lock(&self.folder, &self.begun.tree)?;
        recover(&self.folder, &mut |_| true)?;
        trash::put(&self.folder, &[UPPER, WORK])?;
        trash::empty(&self.folder)?;
        remove_notes(&self.folder)
    }

    /// At most `limit` bytes of both versions of the file `path`.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
    pub fn versions(&self, path: &Path, limit: u64) -> Result<Versions, WorkspaceError> {
        let failed = |source| WorkspaceError::new("read", path, source);
        let (comparison, inner);
        let path = match &self.git {
            Some(git) if is_outside(path) => {
                comparison = git.git_comparison()?;
                inner = path.strip_prefix(OUTSIDE).unwrap_or(path);
                inner
            }
            _ => {
                comparison = self.comparison()?;
                path
            }
        };
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
        self.compared("")
    }

    /// Of a copy of a repository that is kept outside of the work tree.
    fn git_comparison(&self) -> Result<Comparison, WorkspaceError> {
        self.compared(OUTSIDE)
    }

    fn compared(&self, place: &'static str) -> Result<Comparison, WorkspaceError> {
        let upper = self.folder.join(UPPER);
        if !upper.exists() {
            return Err(WorkspaceError::unreadable(
                &self.folder,
                "it was being thrown away; discard it again",
            ));
        }
        Ok(Comparison {
            place,
            upper: Tree::open(&upper).map_err(|source| WorkspaceError::new("open", &upper, source))?,
            host: Tree::open(self.tree())
                .map_err(|source| WorkspaceError::new("open", self.tree(), source))?,
            names: Names::read(&self.folder)?,
            since: self.begun.since,
            conflicts: self.begun.conflicts.iter().map(|path| path.0.clone()).collect(),
            indexes: self
                .begun
                .indexes
                .iter()
                .map(|(path, digest)| (path.0.clone(), digest.clone()))
                .collect(),
        })
    }
}

/// Whether `path`, of a copy whose repository is kept outside, is in that.
fn is_outside(path: &Path) -> bool {
    path.starts_with(OUTSIDE) && path != Path::new(OUTSIDE)
}

fn without_place(change: Change) -> Change {
    let path = change.path.strip_prefix(OUTSIDE).map(Path::to_owned);
    Change { path: path.unwrap_or(change.path), ..change }
}
