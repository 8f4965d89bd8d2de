//! The host's index, in whose place a new one is put under git's own lock.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sandbox_files::or_absent;

use crate::fail_point::{FailPoint, FailPoints, stopped};
use crate::git::{Git, Input};
use crate::index::Index;
use crate::object_id::Format;
use crate::state::IndexText;
use crate::{Error, RunName};

/// The index of a work tree, and the file that locks it.
pub(crate) struct IndexFile {
    path: PathBuf,
    lock: PathBuf,
    /// The lock's other name, which tells whose it is.
    own: PathBuf,
}

impl IndexFile {
    pub(crate) fn of(git_dir: &Path, run: &RunName) -> Self {
        let at = |name: &str| git_dir.join(name);
        Self { path: at("index"), lock: at("index.lock"), own: at(&format!("index.sandbox-{run}")) }
    }

    /// Removes what an import of the same run left that was killed.
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

    /// Writes `new` in git's form, from the file as it is: what does not change keeps what git knows of the work tree's files.
    pub(crate) fn build(
        &self,
        new: &Index,
        old: &IndexText,
        git: &Git,
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
        let arguments = ["update-index", "-z", "--index-info"];
        git.with_index(to).read("write an index", &arguments, Input::Bytes(&changes))?;
        let text = fs::read(to).map_err(Error::files("read", to))?;
        if Index::parse(&text, format).as_ref() == Ok(new) {
            return Ok(text);
        }
        Err(message("it makes another index of the task's entries"))
    }

    /// Puts `text` in the place of the index, if that still is what `expected` says. `false` where it is not, or somebody else holds the lock.
    pub(crate) fn replace(
        &self,
        text: &[u8],
        expected: impl FnOnce(Option<&[u8]>) -> bool,
        points: FailPoints<'_>,
    ) -> Result<bool, Error> {
        let now = |path: &Path| match fs::read(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::files("read", path)(error)),
        };
        let mode = fs::metadata(&self.path).map_or(0o644, |facts| facts.permissions().mode() & 0o777);
        self.write(text, mode).map_err(Error::files("write", &self.own))?;
        // Under a name that git knows, and that only one can make.
        match fs::hard_link(&self.own, &self.lock) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove(&self.own)?;
                return Ok(false);
            }
            Err(error) => return Err(Error::files("lock", &self.lock)(error)),
        }
        stopped(points, FailPoint::IndexLocked)?;
        if !expected(now(&self.path)?.as_deref()) {
            self.clean()?;
            return Ok(false);
        }
        fs::rename(&self.lock, &self.path).map_err(Error::files("replace", &self.path))?;
        remove(&self.own)?;
        Ok(true)
    }

    fn write(&self, text: &[u8], mode: u32) -> io::Result<()> {
        let mut file: File = OpenOptions::new().write(true).create_new(true).open(&self.own)?;
        file.write_all(text)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    or_absent(fs::remove_file(path)).map_err(Error::files("remove", path))
}
