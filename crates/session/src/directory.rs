//! The session directory: every name in it is opened without following links, every file is
//! replaced atomically.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sandbox_files::{FileLock, Replacement, Writers, create_folder, remove_in};

use super::error::SessionError;

/// The session's file.
pub(super) const CONTEXT: &str = "context.json";
const LOCK: &str = ".lock";

/// An open session directory.
#[derive(Debug)]
pub(super) struct SessionDirectory {
    file: File,
    path: PathBuf,
}

impl SessionDirectory {
    /// Opens the directory; creates it and its missing parents, for its owner alone.
    pub(super) fn create(path: &Path) -> Result<Self, SessionError> {
        create_folder(path, 0o700).map_err(|source| io_error("create", path, source))?;
        match Self::open(path)? {
            Some(directory) => Ok(directory),
            None => Err(io_error("open", path, io::ErrorKind::NotFound.into())),
        }
    }

    /// Opens the directory; `None` if it does not exist.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, SessionError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => Ok(Some(Self { file: file.into(), path: path.to_owned() })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(io_error("open", path, error.into())),
        }
    }

    /// Creates the folder `name` for an agent's state.
    pub(super) fn create_state(&self, name: &str) -> Result<(), SessionError> {
        match rustix::fs::mkdirat(&self.file, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(self.io_error("create", name, error)),
        }
        if self.has_state(name)? { Ok(()) } else { Err(self.io_error("open", name, Errno::NOENT)) }
    }

    /// Replaces `name` in the folder `state`, whose content a task has written, with a file of
    /// these bytes.
    pub(super) fn replace_in_state(&self, state: &str, name: &str, bytes: &[u8]) -> Result<(), SessionError> {
        let path = || self.path.join(state).join(name);
        let folder = self.state(state)?.ok_or_else(|| self.io_error("open", state, Errno::NOENT))?;
        // The task must not know the name of the temporary file.
        let replacement = Replacement { writers: Writers::Many, ..Replacement::private() };
        match replacement.write_in(folder, name, bytes) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                Err(SessionError::Tampered { path: path(), expected: "file" })
            }
            Err(source) => Err(io_error("write", &path(), source)),
        }
    }

    /// Whether there is a folder `name`.
    pub(super) fn has_state(&self, name: &str) -> Result<bool, SessionError> {
        Ok(self.state(name)?.is_some())
    }

    fn state(&self, name: &str) -> Result<Option<OwnedFd>, SessionError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.file, name, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(SessionError::Tampered { path: self.path.join(name), expected: "folder" })
            }
            Err(error) => Err(self.io_error("open", name, error)),
        }
    }

    /// Takes the session's lock, the exclusive right to write it, or fails if it is held.
    pub(super) fn lock(&self) -> Result<FileLock, SessionError> {
        let file = self.open_file(LOCK, OFlags::RDWR | OFlags::CREATE)?;
        let file = file.ok_or_else(|| self.io_error("lock", LOCK, Errno::NOENT))?;
        FileLock::try_exclusive_on(file)
            .map_err(|source| io_error("lock", &self.path.join(LOCK), source))?
            .ok_or_else(|| SessionError::Busy { path: self.path.clone() })
    }

    /// Opens a file for reading; `None` if it does not exist.
    pub(super) fn reader(&self, name: &str) -> Result<Option<File>, SessionError> {
        self.open_file(name, OFlags::RDONLY)
    }

    /// The bytes of a file; `None` if it does not exist.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SessionError> {
        let Some(mut file) = self.reader(name)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|source| io_error("read", &self.path.join(name), source))?;
        Ok(Some(bytes))
    }

    /// Replaces `name` with a file of these bytes, so that every reader sees the old one or the new
    /// one, also after a loss of power. Returns it, open for writing at its end.
    pub(super) fn replace(&self, name: &str, bytes: &[u8]) -> Result<File, SessionError> {
        self.replace_with(name, |file| file.write_all(bytes))
    }

    /// As [`replace`](Self::replace), for a file that `fill` writes.
    pub(super) fn replace_with(
        &self,
        name: &str,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<File, SessionError> {
        Replacement::private()
            .durable()
            .fill_in(&self.file, name, fill)
            .map_err(|source| io_error("write", &self.path.join(name), source))
    }

    /// Removes a file; a missing one counts as removed.
    pub(super) fn remove(&self, name: &str) -> Result<(), SessionError> {
        remove_in(&self.file, name).map_err(|source| io_error("remove", &self.path.join(name), source))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file for its owner alone; `None` if it does not exist.
    fn open_file(&self, name: &str, flags: OFlags) -> Result<Option<File>, SessionError> {
        let tampered = || SessionError::Tampered { path: self.path.join(name), expected: "file" };
        // Without NONBLOCK, opening a pipe would wait for its other end.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.file, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(tampered()),
            Err(error) => return Err(self.io_error("open", name, error)),
        };
        let metadata = file.metadata().map_err(|source| io_error("read", &self.path.join(name), source))?;
        if metadata.is_file() { Ok(Some(file)) } else { Err(tampered()) }
    }

    fn io_error(&self, operation: &'static str, name: &str, error: Errno) -> SessionError {
        io_error(operation, &self.path.join(name), error.into())
    }
}

pub(super) fn io_error(operation: &'static str, path: &Path, source: io::Error) -> SessionError {
    SessionError::Io { operation, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn created_files_are_for_the_owner_only() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("a/b");
        let directory = SessionDirectory::create(&path).unwrap();
        directory.create_state("claude").unwrap();
        directory.create_state("claude").unwrap();
        directory.replace("context.json", b"{}").unwrap();
        let _lock = directory.lock().unwrap();
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join("claude")), 0o700);
        assert_eq!(mode(&path.join("context.json")), 0o600);
        assert_eq!(mode(&path.join(".lock")), 0o600);
    }

    #[test]
    fn lock_is_held_once_and_ends_with_its_holder() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = SessionDirectory::create(temporary.path()).unwrap();
        let other = SessionDirectory::create(temporary.path()).unwrap();
        let lock = directory.lock().unwrap();
        assert!(matches!(other.lock(), Err(SessionError::Busy { .. })));
        drop(lock);
        other.lock().unwrap();
    }

    #[test]
    fn file_in_agent_state_replaces_a_tasks_entry_and_follows_no_link() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = SessionDirectory::create(&temporary.path().join("session")).unwrap();
        directory.create_state("claude").unwrap();
        let claude = temporary.path().join("session/claude");
        std::fs::write(temporary.path().join("victim"), "untouched").unwrap();
        for name in ["login", ".login.new"] {
            symlink(temporary.path().join("victim"), claude.join(name)).unwrap();
        }
        directory.replace_in_state("claude", "login", b"{}").unwrap();
        assert_eq!(std::fs::read(claude.join("login")).unwrap(), b"{}");
        assert_eq!(mode(&claude.join("login")), 0o600);
        assert!(!claude.join("login").is_symlink());
        assert_eq!(std::fs::read_to_string(temporary.path().join("victim")).unwrap(), "untouched");
        std::fs::create_dir(claude.join("folder")).unwrap();
        let refused = directory.replace_in_state("claude", "folder", b"{}");
        assert!(matches!(refused, Err(SessionError::Tampered { .. })), "{refused:?}");
        std::fs::remove_dir_all(&claude).unwrap();
        symlink(temporary.path(), &claude).unwrap();
        let refused = directory.replace_in_state("claude", "victim", b"{}");
        assert!(matches!(refused, Err(SessionError::Tampered { .. })), "{refused:?}");
        assert_eq!(std::fs::read_to_string(temporary.path().join("victim")).unwrap(), "untouched");
    }

    #[test]
    fn tampered_names_are_not_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let victim = temporary.path().join("victim");
        std::fs::write(&victim, "untouched").unwrap();
        let path = temporary.path().join("session");
        let directory = SessionDirectory::create(&path).unwrap();
        for name in ["context.json", ".context.json.new", ".lock"] {
            symlink(&victim, path.join(name)).unwrap();
        }
        symlink(temporary.path(), path.join("claude")).unwrap();
        std::fs::create_dir(path.join("folder")).unwrap();
        rustix::fs::mknodat(&directory.file, "pipe", rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();

        for name in ["context.json", "folder", "pipe"] {
            assert!(matches!(directory.read(name), Err(SessionError::Tampered { .. })), "{name}");
        }
        assert!(matches!(directory.lock(), Err(SessionError::Tampered { .. })));
        assert!(matches!(directory.create_state("claude"), Err(SessionError::Tampered { .. })));
        directory.replace("context.json", b"{}").unwrap();
        assert_eq!(directory.read("context.json").unwrap().unwrap(), b"{}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
    }
}
