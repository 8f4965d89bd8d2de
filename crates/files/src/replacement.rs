//! Replaces files atomically: a reader sees the old content or the new one, never a part.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Other writers of the same file at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// No other writer: the caller holds a lock. The temporary file of a killed writer is removed.
    One,
    /// Other processes. Each first writes a temporary file of its own; the last one wins.
    Many,
}

/// The way in which a file is replaced.
#[derive(Debug, Clone, Copy)]
pub struct Replacement {
    /// Its permissions, regardless of the umask.
    pub mode: u32,
    /// Whether it is flushed to the disk before it gets its name, so that it survives a loss of
    /// power.
    pub is_durable: bool,
    /// Other writers of the file.
    pub writers: Writers,
}

impl Replacement {
    /// A file for its owner alone, in a folder that the caller has locked.
    #[must_use]
    pub fn private() -> Self {
        Self { mode: 0o600, is_durable: false, writers: Writers::One }
    }

    /// A file with the permissions `mode` whose name is derived from its content: every process
    /// writes the same.
    #[must_use]
    pub fn shared(mode: u32) -> Self {
        Self { mode, is_durable: false, writers: Writers::Many }
    }

    /// Flushes the file to the disk before the call returns.
    #[must_use]
    pub fn durable(self) -> Self {
        Self { is_durable: true, ..self }
    }

    /// Replaces `path` with a file of these bytes. Blocks.
    ///
    /// # Errors
    ///
    /// If the file system refuses; the former file is then unchanged.
    pub fn write(self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        self.write_in(File::open(folder)?, name, bytes).map(drop)
    }

    /// Replaces `name` in an open folder with a file of these bytes, and returns it, open for
    /// writing at its end. Blocks.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn write_in(self, folder: impl AsFd, name: &str, bytes: &[u8]) -> io::Result<File> {
        self.fill_in(folder, name, |file| file.write_all(bytes))
    }

    /// As [`write_in`](Self::write_in), with a file that `write` fills.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), and those of `write`.
    pub fn fill_in(
        self,
        folder: impl AsFd,
        name: &str,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<File> {
        let new = match self.writers {
            Writers::One => format!(".{name}.new"),
            Writers::Many => format!(".{name}.{:016x}", rand::random::<u64>()),
        };
        remove_in(&folder, &new)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, new.as_str(), flags, Mode::RUSR | Mode::WUSR)?);
        let written = write(&mut file)
            .and_then(|()| file.set_permissions(Permissions::from_mode(self.mode)))
            .and_then(|()| if self.is_durable { file.sync_all() } else { Ok(()) })
            .and_then(|()| Ok(renameat(&folder, new.as_str(), &folder, name)?));
        if let Err(error) = written {
            // On a full disk, a partial file would waste space.
            let _ = remove_in(&folder, &new);
            return Err(error);
        }
        if self.is_durable {
            fsync(&folder)?;
        }
        Ok(file)
    }
}

/// Removes a file from an open folder; a missing file is not an error.
///
/// # Errors
///
/// If the file system refuses.
pub fn remove_in(folder: impl AsFd, name: &str) -> io::Result<()> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn file_is_replaced_with_its_mode_and_no_temporary_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for (replacement, text) in [
            (Replacement::private(), "1"),
            (Replacement::private().durable(), "2"),
            (Replacement::shared(0o444), "3"),
            (Replacement::shared(0o511).durable(), "4"),
        ] {
            replacement.write(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, replacement.mode, "{text}");
            assert_eq!(names(folder.path()), ["a"]);
        }
    }

    #[test]
    fn link_at_either_name_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "untouched").unwrap();
        for name in ["a", ".a.new"] {
            symlink(at("victim"), at(name)).unwrap();
        }
        Replacement::private().write(&at("a"), b"1").unwrap();
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "1");
        assert_eq!(names(folder.path()), ["a", "victim"]);
    }

    #[test]
    fn failed_replacement_leaves_the_former_file_only() {
        let folder = tempfile::tempdir().unwrap();
        // A folder cannot be replaced by a file, so the rename fails.
        fs::create_dir(folder.path().join("a")).unwrap();
        for replacement in [Replacement::private(), Replacement::shared(0o644)] {
            replacement.write(&folder.path().join("a"), b"1").unwrap_err();
            assert_eq!(names(folder.path()), ["a"]);
        }
    }
}
