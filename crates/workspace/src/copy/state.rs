//! Where a copy is kept, since when, and who works with it.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sandbox_files::tree::{Kind, Tree};
use sandbox_files::{FileLock, Replacement, create_folder, or_absent, read_if_present};
use serde::{Deserialize, Serialize};

use super::super::error::WorkspaceError;
use super::super::protection::Protection;
use super::apply::{Applied, ApplyOptions};
use super::changes::{Change, Comparison};
use super::finish::recover;
use super::keep::{self, Kept};
use super::names::Names;
use super::path_text::{self, PathText};
use super::{apply, journal, trash};

const UPPER: &str = "upper";
const WORK: &str = "work";
const BEGUN: &str = "begun.json";
const LOCK: &str = "lock";
/// There from the moment when a task gets the copy until its container is known to be gone.
const TAKEN: &str = "taken";
/// What `statfs` calls an overlay, on which no other can be stacked.
const OVERLAYFS: u64 = 0x794c_7630;

/// A copy-on-write view of a work tree, in a folder of its own. [`Mount::copy_on_write`](crate::Mount::copy_on_write) makes one
/// when a task starts; a later task with the same folder goes on with it.
#[derive(Debug)]
pub struct WorkspaceCopy {
    folder: PathBuf,
    begun: Begun,
}

/// A file as the task left it, and as it is in the work tree; `None` where there is no file.
pub type Versions = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The copy of a running task: nobody else touches it.
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

    /// Waits until everything is noted that tells later what the host changed since. Until then no task may begin. Blocks.
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

/// When a copy began, and of what.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Begun {
    version: u32,
    #[serde(with = "path_text")]
    tree: PathBuf,
    /// What changed later on the host, changed since.
    since: (i64, u32),
    /// What had changed on both sides before.
    #[serde(default)]
    conflicts: Vec<PathText>,
}

/// The folders that the engine's overlay writes in.
#[must_use]
pub fn overlay_folders(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join(UPPER), folder.join(WORK))
}

impl WorkspaceCopy {
    /// The copy that is kept in `folder`; `None` when there is none. Finishes or undoes what a crashed [`apply`](Self::apply) left.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or a task works with it.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Option<Self>, WorkspaceError> {
        let folder = folder.into();
        if !folder.exists() {
            return Ok(None);
        }
        if journal::exists(&folder) {
            let _lock = lock(&folder, &folder)?;
            recover(&folder, &mut |_| true)?;
        }
        Self::read(&folder)
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
        Ok(CopyInUse {
            _lock: held,
            taken,
            beginning: Some(beginning),
        })
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
        Ok(begun.map(|begun| Self {
            folder: folder.to_owned(),
            begun,
        }))
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
        self.comparison()?.changes(protection)
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
        apply::apply(&self.comparison()?, &self.folder, options, &mut |_| true)
    }

    /// Throws the changes away, once the container that made them is gone. Blocks.
    ///
    /// # Errors
    ///
    /// When the folder cannot be emptied, or a task works with it. The first leaves a copy that can only be discarded again, or begun
    /// anew by a task.
    pub fn discard(self) -> Result<(), WorkspaceError> {
        let _lock = lock(&self.folder, self.tree())?;
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
        Ok((
            read(&comparison.upper).map_err(failed)?,
            read(&comparison.host).map_err(failed)?,
        ))
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
        })
    }
}

/// Throws away everything but the lock: what cannot be removed counts for nothing, and waits for the next time.
pub(super) fn forget(folder: &Path) -> Result<(), WorkspaceError> {
    trash::put(folder, &[UPPER, WORK])?;
    remove_notes(folder)?;
    if let Err(error) = trash::empty(folder) {
        tracing::warn!(%error, "a part of a copy that nobody needs any more cannot be removed");
    }
    Ok(())
}

/// Removes what is known about a copy.
fn remove_notes(folder: &Path) -> Result<(), WorkspaceError> {
    // The journal last: as long as it is there, whoever is next goes on here.
    for path in [
        folder.join(BEGUN),
        folder.join(TAKEN),
        Names::path(folder),
        folder.join(journal::NAME),
    ] {
        or_absent(fs::remove_file(&path)).map_err(|source| WorkspaceError::new("remove", &path, source))?;
    }
    Ok(())
}

fn lock(folder: &Path, tree: &Path) -> Result<FileLock, WorkspaceError> {
    let path = folder.join(LOCK);
    FileLock::try_exclusive(&path)
        .map_err(|source| WorkspaceError::new("lock", &path, source))?
        .ok_or_else(|| WorkspaceError::Busy {
            tree: tree.to_owned(),
        })
}

fn begin(tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    forget(folder)?;
    let failed = |source| WorkspaceError::new("prepare a copy in", folder, source);
    let kind = rustix::fs::statfs(folder)
        .map_err(|error| failed(error.into()))?
        .f_type;
    if u64::try_from(kind) == Ok(OVERLAYFS) {
        return Err(WorkspaceError::unreadable(
            folder,
            "it lies on an overlay, on which the kernel stacks no other; keep the state on another file system",
        ));
    }
    let (upper, work) = overlay_folders(folder);
    fs::create_dir(&work).map_err(failed)?;
    fs::create_dir(&upper).map_err(failed)?;
    // What the task sees at the top of the tree is what the upper folder is.
    let top = fs::metadata(tree).map_err(failed)?;
    if rustix::process::geteuid().is_root() {
        chown(&upper, Some(top.uid()), Some(top.gid())).map_err(failed)?;
    }
    fs::set_permissions(&upper, Permissions::from_mode(top.mode() & 0o7777)).map_err(failed)?;
    Ok(())
}

/// Leaves the changes `kept` in the copy, over the tree as it is now.
pub(super) fn keep(kept: &[Kept], tree: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    keep::only(kept, folder, UPPER)?;
    note_beginning(tree, folder, now(folder)?, keep::conflicts(kept))?;
    let taken = folder.join(TAKEN);
    or_absent(fs::remove_file(&taken)).map_err(|source| WorkspaceError::new("remove", &taken, source))?;
    if let Err(error) = trash::empty(folder) {
        tracing::warn!(%error, "a part of a copy that is no longer needed cannot be removed");
    }
    Ok(())
}

/// The kernel's own word for now: the clock that it stamps files with is not the one that programs read.
pub(super) fn now(folder: &Path) -> Result<(i64, u32), WorkspaceError> {
    let clock = folder.join("clock");
    let failed = |source| WorkspaceError::new("prepare a copy in", folder, source);
    let now = File::create(&clock)
        .and_then(|file| file.metadata())
        .map_err(failed)?;
    fs::remove_file(&clock).map_err(failed)?;
    Ok((now.ctime(), u32::try_from(now.ctime_nsec()).unwrap_or(0)))
}

/// What changes on the host after `since`, changed since the copy began; so did `conflicts`.
pub(super) fn note_beginning(
    tree: &Path,
    folder: &Path,
    since: (i64, u32),
    conflicts: BTreeSet<PathBuf>,
) -> Result<(), WorkspaceError> {
    Names::write(tree, folder)?;
    let begun = Begun {
        version: 1,
        tree: tree.to_owned(),
        since,
        conflicts: conflicts.into_iter().map(PathText).collect(),
    };
    write_begun(&begun, folder)
}

fn write_begun(begun: &Begun, folder: &Path) -> Result<(), WorkspaceError> {
    let path = folder.join(BEGUN);
    serde_json::to_vec(begun)
        .map_err(Into::into)
        .and_then(|text| Replacement::private().write(&path, &text))
        .map_err(|source| WorkspaceError::new("write", &path, source))
}

fn read_begun(folder: &Path) -> Result<Option<Begun>, WorkspaceError> {
    let path = folder.join(BEGUN);
    let read = read_if_present(&path).map_err(|source| WorkspaceError::new("read", &path, source))?;
    let Some(text) = read else { return Ok(None) };
    let begun: Begun = serde_json::from_slice(&text)
        .map_err(|error| WorkspaceError::unreadable(&path, error.to_string()))?;
    if begun.version != 1 {
        return Err(WorkspaceError::unreadable(
            &path,
            "another version of this program wrote it",
        ));
    }
    Ok(Some(begun))
}
