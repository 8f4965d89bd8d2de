//! Replaces the host's index under git's own lock.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use sandbox_files::or_absent;

use crate::fail_point::{FailPoint, FailPoints, stopped};
use crate::git::{Git, Input};
use crate::index::Index;
use crate::object_id::Format;
use crate::state::IndexText;
use crate::{Error, RunName};

/// How often, and how long each time, to wait for another command to release the index, such as
/// `git status`.
const LOCK_WAITS: u32 = 40;
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// Proof that the index is locked.
pub(crate) struct Locked;

/// The index of a work tree, and the file that locks it.
pub(crate) struct IndexFile {
    path: PathBuf,
    lock: PathBuf,
    /// The lock's other name, which identifies its owner.
    own: PathBuf,
}

impl IndexFile {
    pub(crate) fn of(git_dir: &Path, run: &RunName) -> Self {
        let at = |name: &str| git_dir.join(name);
        Self { path: at("index"), lock: at("index.lock"), own: at(&format!("index.sandbox-{run}")) }
    }

    /// Removes files of an import of the same run that was killed.
    pub(crate) fn clean(&self) -> Result<(), Error> {
        let number = |path: &Path| match fs::symlink_metadata(path) {
            Ok(facts) => Ok(Some((facts.dev(), facts.ino()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::files("look at", path)(error)),
        };
        let Some(own) = number(&self.own)? else {
            return Ok(());
        };
        if number(&self.lock)? == Some(own) {
            remove(&self.lock)?;
        }
        remove(&self.own)
    }

    /// Writes `new` in git's format, based on the existing file: unchanged entries keep git's data
    /// about the work tree's files.
    pub(crate) fn build(
        &self,
        new: &Index,
        old: &IndexText,
        git: &Git<'_>,
        format: Format,
        to: &Path,
    ) -> Result<Vec<u8>, Error> {
        let failed = |path: &Path| Error::files("write", path);
        or_absent(fs::remove_file(to)).map_err(failed(to))?;
        match fs::read(&self.path) {
            Ok(text) => fs::write(to, text).map_err(failed(to))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::files("read", &self.path)(error)),
        }
        let message = |why: &str| Error::Git { operation: "write an index", message: why.to_owned() };
        let changes = new.changes_from(&old.parse(format).map_err(message)?, format);
        let git = git.with_index(to);
        let hidden = tagged(&git, b'S')?;
        let arguments = [AS_THEY_ARE[0], AS_THEY_ARE[1], "update-index", "-z", "--index-info"];
        let written = git.run("write an index", &arguments, Input::Bytes(&changes), None)?;
        if !written.is_success {
            return Err(Error::OddIndex);
        }
        keep_hidden(&git, &hidden, to)?;
        let text = fs::read(to).map_err(Error::files("read", to))?;
        if Index::parse(&text, format).as_ref() == Ok(new) { Ok(text) } else { Err(Error::OddIndex) }
    }

    /// Locks the index with `text` as its replacement, if `expected` accepts the current one.
    /// `None` if it does not.
    pub(crate) fn lock(
        &self,
        text: &[u8],
        expected: impl FnOnce(Option<&[u8]>) -> bool,
        points: FailPoints<'_>,
    ) -> Result<Option<Locked>, Error> {
        let now = |path: &Path| match fs::read(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::files("read", path)(error)),
        };
        let mode = fs::metadata(&self.path).map_or(0o644, |facts| facts.permissions().mode() & 0o777);
        self.write(text, mode).map_err(Error::files("write", &self.own))?;
        let mut waits = LOCK_WAITS;
        // Git knows this name, and only one process can create it.
        while let Err(error) = fs::hard_link(&self.own, &self.lock) {
            let is_busy = error.kind() == io::ErrorKind::AlreadyExists;
            if !is_busy || waits == 0 {
                remove(&self.own)?;
                return Err(if is_busy {
                    Error::Locked { path: self.lock.clone() }
                } else {
                    Error::files("lock", &self.lock)(error)
                });
            }
            waits -= 1;
            // tidy: sleep: nothing tells when another program removes its lock.
            thread::sleep(LOCK_WAIT);
        }
        stopped(points, FailPoint::IndexLocked)?;
        if !expected(now(&self.path)?.as_deref()) {
            self.clean()?;
            return Ok(None);
        }
        Ok(Some(Locked))
    }

    /// Replaces the index with the locked file.
    pub(crate) fn replace(&self, _locked: Locked) -> Result<(), Error> {
        fs::rename(&self.lock, &self.path).map_err(Error::files("replace", &self.path))?;
        remove(&self.own)
    }

    fn write(&self, text: &[u8], mode: u32) -> io::Result<()> {
        let mut file: File = OpenOptions::new().write(true).create_new(true).open(&self.own)?;
        file.write_all(text)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    }
}

/// Without this, git would derive the flag from files in the folder where it looks, which is not
/// the work tree.
const AS_THEY_ARE: [&str; 2] = ["-c", "sparse.expectFilesOutsideOfPatterns=true"];

/// The paths that `git ls-files -t` shows with this tag.
fn tagged(git: &Git<'_>, tag: u8) -> Result<BTreeSet<Vec<u8>>, Error> {
    let arguments = [AS_THEY_ARE[0], AS_THEY_ARE[1], "ls-files", "-t", "-z"];
    let list = git.read("list an index", &arguments, Input::Nothing)?;
    let paths = list.split(|byte| *byte == 0).filter_map(|line| line.strip_prefix(&[tag, b' ']));
    Ok(paths.map(<[u8]>::to_vec).collect())
}

/// Sets the flag again that makes git ignore a file of the work tree: a new entry lacks it, and the
/// file would seem to be deleted.
fn keep_hidden(git: &Git<'_>, hidden: &BTreeSet<Vec<u8>>, index: &Path) -> Result<(), Error> {
    if hidden.is_empty() {
        return Ok(());
    }
    let bare = tagged(git, b'H')?;
    let lost: Vec<&[u8]> = hidden.intersection(&bare).flat_map(|path| [path, &b"\0"[..]]).collect();
    if lost.is_empty() {
        return Ok(());
    }
    // Git requires an existing folder, but reads nothing in it.
    let folder = format!("--work-tree={}", index.parent().unwrap_or(index).display());
    let arguments =
        [AS_THEY_ARE[0], AS_THEY_ARE[1], &folder, "update-index", "-z", "--skip-worktree", "--stdin"];
    git.read("keep flags of an index", &arguments, Input::Bytes(&lost.concat())).map(drop)
}

fn remove(path: &Path) -> Result<(), Error> {
    or_absent(fs::remove_file(path)).map_err(Error::files("remove", path))
}
