//! Walks a path from open folder to open folder, and decides at each link whether a task could have
//! created it.
//!
//! Above the folders that tasks can write, links are the machine's own and are followed. Below them
//! no link is followed, neither in the middle of a path nor at its end. The result is held open, so
//! later changes of names do not affect it.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, StatxFlags, mkdirat, openat, readlinkat, renameat, statx,
    unlinkat,
};
use rustix::io::Errno;

use super::error::{PathError, PathProblem};
use super::identity::Identity;

/// The kernel's limit of links in one path.
const MOST_LINKS: usize = 40;
/// The maximum number of names in a path.
const MOST_NAMES: usize = 4096;

/// Opens host paths.
///
/// ```
/// use sandbox_files::host_path::Resolver;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tree = tempfile::tempdir()?;
/// std::fs::write(tree.path().join("policy.yaml"), "domains: []")?;
/// std::os::unix::fs::symlink("/etc/passwd", tree.path().join("link"))?;
///
/// let resolver = Resolver::new([tree.path()]);
/// let policy = resolver.find(&tree.path().join("policy.yaml"))?;
/// assert!(policy.is_untrusted(), "a task can write it");
/// assert_eq!(policy.read(64 * 1024)?, b"domains: []");
/// assert!(resolver.find(&tree.path().join("link")).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Resolver {
    writable: BTreeSet<Identity>,
}

/// The file or folder that a path led to, held open.
#[derive(Debug)]
pub struct Found {
    /// Opened without any access right (`O_PATH`).
    held: OwnedFd,
    /// Its parent folder, unless it is a folder itself.
    folder: Option<OwnedFd>,
    named: PathBuf,
    path: PathBuf,
    identity: Identity,
    kind: FileType,
    links: u32,
    untrusted: bool,
}

/// A folder on the way.
struct Step {
    held: OwnedFd,
    name: OsString,
    untrusted: bool,
}

/// The result of a walk: an entry, or the open folder in which it is missing.
enum Walked {
    Found(Found),
    Missing { parent: Step, name: OsString },
}

impl Resolver {
    /// A resolver for a machine on which tasks can write these folders and files, and everything
    /// below them. Missing ones are ignored: no task can have written to them.
    pub fn new<P: AsRef<Path>>(writable: impl IntoIterator<Item = P>) -> Self {
        let mut resolver = Self::default();
        for path in writable {
            resolver.add(path.as_ref());
        }
        resolver
    }

    /// Adds a path that tasks can write.
    pub fn add(&mut self, path: &Path) {
        let held = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        if let Some(identity) = held.ok().and_then(|held| Identity::of(held).ok()) {
            self.writable.insert(identity);
        }
    }

    /// Finds `path`; a relative one starts in the current folder.
    ///
    /// # Errors
    ///
    /// If it does not exist, a part of the path cannot be entered, or a link is in a folder that
    /// tasks can write.
    pub fn find(&self, path: &Path) -> Result<Found, PathError> {
        match self.walk(path)? {
            Walked::Found(found) => Ok(found),
            Walked::Missing { .. } => Err(PathError::new(path, io::Error::from(Errno::NOENT))),
        }
    }

    /// Reads the regular file at `path`, of at most `limit` bytes; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find), and if it is not a regular file, is larger, or cannot be read.
    pub fn read(&self, path: &Path, limit: u64) -> Result<Option<(Found, Vec<u8>)>, PathError> {
        match self.find(path) {
            Ok(found) => {
                let bytes = found.read(limit)?;
                Ok(Some((found, bytes)))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the regular file at `path` for appending; creates a missing one with the permissions
    /// `mode`. Never waits for the other end of a pipe.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find), and if it is not a regular file, or has a second name in a folder
    /// that tasks can write.
    pub fn append(&self, path: &Path, mode: u32) -> Result<File, PathError> {
        let flags = OFlags::WRONLY | OFlags::APPEND;
        match self.walk(path)? {
            Walked::Found(found) => {
                if found.untrusted && found.links > 1 && found.kind == FileType::RegularFile {
                    return Err(PathError::new(path, PathProblem::HardLink));
                }
                found.open(flags)
            }
            Walked::Missing { parent, name } => {
                let new = openat(&parent.held, &name, flags | NEW, Mode::from_raw_mode(mode));
                new.map(File::from).map_err(|error| PathError::new(path, io::Error::from(error)))
            }
        }
    }

    /// Finds the folder at `path`; creates it and its parents if they are missing.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find), and if a folder cannot be created.
    pub fn make_folder(&self, path: &Path) -> Result<Found, PathError> {
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|part| !part.as_os_str().is_empty())
            .take_while(|part| part.symlink_metadata().is_err())
            .collect();
        for part in missing.into_iter().rev() {
            if let Walked::Missing { parent, name } = self.walk(part)? {
                let made = mkdirat(&parent.held, &name, Mode::from_raw_mode(0o777));
                made.map_err(|error| PathError::new(path, io::Error::from(error)))?;
            }
        }
        self.find(path)
    }

    fn walk(&self, path: &Path) -> Result<Walked, PathError> {
        let failed = |error: io::Error| PathError::new(path, error);
        let absolute = std::path::absolute(path).map_err(failed)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let held = openat(CWD, "/", flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let identity = Identity::of(&held).map_err(failed)?;
        let mut walk = Walk {
            resolver: self,
            named: path,
            root: Step { untrusted: self.writable.contains(&identity), name: OsString::new(), held },
            steps: Vec::new(),
            pending: VecDeque::new(),
            links: 0,
        };
        walk.ask_for(&absolute)?;
        walk.run()
    }
}

/// Creates a file, and fails if the name exists.
const NEW: OFlags = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A walk in progress.
struct Walk<'a> {
    resolver: &'a Resolver,
    named: &'a Path,
    root: Step,
    steps: Vec<Step>,
    pending: VecDeque<OsString>,
    links: usize,
}

impl Walk<'_> {
    fn run(mut self) -> Result<Walked, PathError> {
        while let Some(name) = self.pending.pop_front() {
            if name == ".." {
                self.steps.pop();
                continue;
            }
            let held = match openat(&self.last().held, &name, HELD, Mode::empty()) {
                Err(Errno::NOENT) if self.pending.is_empty() => {
                    return Ok(Walked::Missing { parent: self.into_last(), name });
                }
                held => held.map_err(|error| self.failed(io::Error::from(error)))?,
            };
            let what = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK;
            let facts = statx(&held, "", AtFlags::EMPTY_PATH, what);
            let facts = facts.map_err(|error| self.failed(io::Error::from(error)))?;
            let untrusted = self.last().untrusted || self.resolver.writable.contains(&Identity::from(&facts));
            match FileType::from_raw_mode(u32::from(facts.stx_mode)) {
                FileType::Symlink => self.follow(&held, &name)?,
                FileType::Directory => self.steps.push(Step { held, name, untrusted }),
                _ if !self.pending.is_empty() => return Err(self.failed(io::Error::from(Errno::NOTDIR))),
                kind => {
                    return Ok(Walked::Found(Found {
                        named: self.named.to_owned(),
                        path: self.path().join(&name),
                        identity: Identity::from(&facts),
                        kind,
                        links: facts.stx_nlink,
                        untrusted,
                        folder: Some(self.into_last().held),
                        held,
                    }));
                }
            }
        }
        Ok(Walked::Found(Found {
            named: self.named.to_owned(),
            path: self.path(),
            identity: Identity::of(&self.last().held).map_err(|error| self.failed(error))?,
            kind: FileType::Directory,
            links: 1,
            untrusted: self.last().untrusted,
            folder: None,
            held: self.into_last().held,
        }))
    }

    fn follow(&mut self, link: &OwnedFd, name: &OsStr) -> Result<(), PathError> {
        if self.last().untrusted {
            let link = self.path().join(name);
            return Err(PathError::new(self.named, PathProblem::Link { link }));
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(self.failed(io::Error::from(Errno::LOOP)));
        }
        let target = readlinkat(link, "", Vec::new()).map_err(|error| self.failed(io::Error::from(error)))?;
        self.ask_for(Path::new(OsStr::from_bytes(target.to_bytes())))
    }

    /// Puts the parts of `path` before the pending ones.
    fn ask_for(&mut self, path: &Path) -> Result<(), PathError> {
        for part in path.components().rev() {
            match part {
                Component::Normal(name) => self.pending.push_front(name.to_owned()),
                Component::ParentDir => self.pending.push_front(OsStr::new("..").to_owned()),
                Component::RootDir => self.steps.clear(),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        if self.pending.len() > MOST_NAMES {
            return Err(self.failed(io::Error::from(Errno::NAMETOOLONG)));
        }
        Ok(())
    }

    fn last(&self) -> &Step {
        self.steps.last().unwrap_or(&self.root)
    }

    /// The present path of the walk, without links.
    fn path(&self) -> PathBuf {
        let names = self.steps.iter().map(|step| step.name.as_os_str());
        std::iter::once(OsStr::new("/")).chain(names).collect()
    }

    fn into_last(mut self) -> Step {
        self.steps.pop().unwrap_or(self.root)
    }

    fn failed(&self, problem: impl Into<PathProblem>) -> PathError {
        PathError::new(self.named, problem)
    }
}

/// Opens without any access right; a link is opened itself.
const HELD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Found {
    /// Its path, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether a task can have written it, or put it in its place.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.untrusted
    }

    /// Whether it is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }

    /// Whether it is a symbolic link: only a [`child`](Self::child) can be one.
    #[must_use]
    pub fn is_link(&self) -> bool {
        self.kind == FileType::Symlink
    }

    /// The names in it, sorted.
    ///
    /// # Errors
    ///
    /// If it is not a folder, or is not readable.
    pub fn names(&self) -> Result<Vec<OsString>, PathError> {
        let failed = |error: Errno| PathError::new(&self.path, io::Error::from(error));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&self.held, ".", flags, Mode::empty()).map_err(failed)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The entry `name` in this folder; a link is found itself, and is as untrusted as the folder.
    ///
    /// # Errors
    ///
    /// If it is not a folder, or has no such entry.
    pub fn child(&self, name: &OsStr) -> Result<Self, PathError> {
        let path = self.path.join(name);
        let failed = |error: io::Error| PathError::new(&path, error);
        if name.as_bytes().contains(&b'/') || name == ".." {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        let held = openat(&self.held, name, HELD, Mode::empty()).map_err(|error| failed(error.into()))?;
        let what = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::NLINK;
        let facts = statx(&held, "", AtFlags::EMPTY_PATH, what).map_err(|error| failed(error.into()))?;
        let folder = self.held.try_clone().map_err(failed)?;
        Ok(Self {
            named: path.clone(),
            identity: Identity::from(&facts),
            kind: FileType::from_raw_mode(u32::from(facts.stx_mode)),
            links: facts.stx_nlink,
            untrusted: self.untrusted,
            folder: Some(folder),
            held,
            path,
        })
    }

    /// Creates the file `name` in this folder.
    ///
    /// # Errors
    ///
    /// If it is not a folder, or the name exists.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> Result<File, PathError> {
        let new = openat(&self.held, name, OFlags::RDWR | NEW, Mode::from_raw_mode(mode));
        new.map(File::from).map_err(|error| PathError::new(&self.path.join(name), io::Error::from(error)))
    }

    /// Renames the file `from` in this folder to `to`, and replaces an existing entry.
    ///
    /// # Errors
    ///
    /// If it is not a folder, or the system refuses.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), PathError> {
        let renamed = renameat(&self.held, from, &self.held, to);
        renamed.map_err(|error| PathError::new(&self.path.join(to), io::Error::from(error)))
    }

    /// Removes the file `name` from this folder; a missing one counts as removed.
    ///
    /// # Errors
    ///
    /// If it is a folder, or the system refuses.
    pub fn remove(&self, name: &OsStr) -> Result<(), PathError> {
        match unlinkat(&self.held, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(PathError::new(&self.path.join(name), io::Error::from(error))),
        }
    }

    /// Whether `other` is this folder or is inside it, under any name.
    ///
    /// # Errors
    ///
    /// If a folder above `other` cannot be entered.
    pub fn contains(&self, other: &Self) -> Result<bool, PathError> {
        Ok(other.lineage()?.contains(&self.identity))
    }

    /// Device and inode of it and of its parents, nearest first.
    fn lineage(&self) -> Result<Vec<Identity>, PathError> {
        let failed = |error: io::Error| PathError::new(&self.named, error);
        let mut lineage = vec![self.identity];
        let mut folder = match &self.folder {
            Some(folder) => folder.try_clone().map_err(failed)?,
            None => parent_of(self.held.as_fd()).map_err(failed)?,
        };
        loop {
            let identity = Identity::of(&folder).map_err(failed)?;
            if lineage.last() == Some(&identity) || lineage.len() > MOST_NAMES {
                return Ok(lineage);
            }
            lineage.push(identity);
            folder = parent_of(folder.as_fd()).map_err(failed)?;
        }
    }

    /// Its content, of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// If it is not a regular file, is larger, or cannot be read.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>, PathError> {
        let mut bytes = Vec::new();
        let file = self.open(OFlags::RDONLY)?;
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| PathError::new(&self.named, error))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length <= limit) {
            Ok(bytes)
        } else {
            Err(PathError::new(&self.named, PathProblem::TooLarge { limit }))
        }
    }

    /// Opens this regular file for reading.
    ///
    /// # Errors
    ///
    /// If it is not a regular file, or is not readable.
    pub fn file(&self) -> Result<File, PathError> {
        self.open(OFlags::RDONLY)
    }

    /// Opens this regular file: exactly the one that was found, whichever file has its name now.
    fn open(&self, flags: OFlags) -> Result<File, PathError> {
        if self.kind != FileType::RegularFile {
            return Err(PathError::new(&self.named, PathProblem::NotRegular));
        }
        // A descriptor without access rights can only be reopened through this path.
        let name = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        let opened = openat(CWD, name, flags | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        opened.map(File::from).map_err(|error| PathError::new(&self.named, io::Error::from(error)))
    }
}

impl AsFd for Found {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

fn parent_of(folder: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(openat(folder, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests;
