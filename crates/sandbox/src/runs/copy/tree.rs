//! A folder or file of the host as a tar archive.
//!
//! Whoever may write the folder may change it meanwhile, so each step goes from an open folder to what is in it, and through no link:
//! nothing outside of the folder can come into the archive.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};

use crate::runs::RunError;

/// Each folder on the way down is held open.
const DEEPEST: usize = 200;
/// Bytes of holes in all files together: an archive has them as zeros, and so has whoever unpacks it.
const MOST_HOLES: u64 = 1 << 30;
/// What is read may be a pipe or a device by now: opening it must neither wait nor do anything.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// What is copied. Itself, it may be named through a link; nothing in it is followed.
#[derive(Debug)]
pub(super) struct Tree {
    path: PathBuf,
    top: OwnedFd,
    is_dir: bool,
}

impl Tree {
    /// Opens `path`, and looks whether it can be copied as it is now.
    pub(super) fn open(path: &Path) -> Result<Self, RunError> {
        let failed = |source: rustix::io::Errno| source_error(path, source.into());
        let flags = READ.difference(OFlags::NOFOLLOW);
        let top = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let stat = fstat(&top).map_err(failed)?;
        let mut look = Walk::<io::Sink>::new(None);
        let is_dir = match kind(&stat) {
            FileType::Directory => true,
            FileType::RegularFile => {
                look.count_holes(&stat)
                    .map_err(|source| source_error(path, source))?;
                false
            }
            _ => return Err(source_error(path, special())),
        };
        let tree = Self {
            path: path.to_owned(),
            top,
            is_dir,
        };
        if is_dir {
            look.folder(tree.top.as_fd(), Path::new(""), &tree.path, 0)?;
        }
        Ok(tree)
    }

    pub(super) fn is_dir(&self) -> bool {
        self.is_dir
    }

    /// Writes an archive: the folders `parents`, then this tree at `at`. An empty `at` is the folder in which the archive is unpacked:
    /// it stays as it is, and gets what is in the tree.
    pub(super) fn write(self, parents: &[PathBuf], at: &Path, out: impl Write) -> Result<(), RunError> {
        let failed = |source| source_error(&self.path, source);
        let mut archive = tar::Builder::new(out);
        for parent in parents {
            append(
                &mut archive,
                parent,
                tar::EntryType::Directory,
                0o755,
                0,
                io::empty(),
                0,
            )
            .map_err(failed)?;
        }
        let stat = fstat(&self.top).map_err(|error| failed(error.into()))?;
        let mut walk = Walk::new(Some(archive));
        if self.is_dir {
            if !at.as_os_str().is_empty() {
                walk.folder_entry(&stat, at).map_err(failed)?;
            }
            walk.folder(self.top.as_fd(), at, &self.path, 0)?;
        } else {
            walk.file(self.top, &stat, at).map_err(failed)?;
        }
        let mut out = match walk.archive {
            Some(archive) => archive.into_inner().map_err(failed)?,
            None => return Ok(()),
        };
        out.flush().map_err(failed)
    }
}

struct Walk<W: Write> {
    /// `None`: only looks.
    archive: Option<tar::Builder<W>>,
    /// Bytes of holes in the files so far.
    holes: u64,
}

impl<W: Write> Walk<W> {
    fn new(archive: Option<tar::Builder<W>>) -> Self {
        Self { archive, holes: 0 }
    }

    fn folder(
        &mut self,
        folder: BorrowedFd<'_>,
        at: &Path,
        host: &Path,
        depth: usize,
    ) -> Result<(), RunError> {
        let failed = |source: io::Error| source_error(host, source);
        if depth > DEEPEST {
            return Err(failed(io::Error::other(format!(
                "it is deeper than {DEEPEST} folders"
            ))));
        }
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(|error| failed(error.into()))? {
            let entry = entry.map_err(|error| failed(error.into()))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        // The same archive for the same files.
        names.sort_unstable();
        for name in names {
            self.child(folder, &name, &at.join(&name), &host.join(&name), depth)?;
        }
        Ok(())
    }

    fn child(
        &mut self,
        folder: BorrowedFd<'_>,
        name: &OsStr,
        at: &Path,
        host: &Path,
        depth: usize,
    ) -> Result<(), RunError> {
        let failed = |source: io::Error| source_error(host, source);
        let no = |error: rustix::io::Errno| failed(error.into());
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(no)?;
        match kind(&stat) {
            FileType::Symlink => self.link(folder, name, &stat, at).map_err(failed),
            FileType::Directory => {
                let flags = READ.union(OFlags::DIRECTORY);
                let child = openat(folder, name, flags, Mode::empty()).map_err(no)?;
                let stat = fstat(&child).map_err(no)?;
                self.folder_entry(&stat, at).map_err(failed)?;
                self.folder(child.as_fd(), at, host, depth + 1)
            }
            FileType::RegularFile if self.archive.is_none() => self.count_holes(&stat).map_err(failed),
            FileType::RegularFile => {
                let child = openat(folder, name, READ, Mode::empty()).map_err(no)?;
                let stat = fstat(&child).map_err(no)?;
                self.file(child, &stat, at).map_err(failed)
            }
            _ => Err(failed(special())),
        }
    }

    fn folder_entry(&mut self, stat: &Stat, at: &Path) -> io::Result<()> {
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        append(
            archive,
            at,
            tar::EntryType::Directory,
            mode(stat),
            mtime(stat),
            io::empty(),
            0,
        )
    }

    fn link(&mut self, folder: BorrowedFd<'_>, name: &OsStr, stat: &Stat, at: &Path) -> io::Result<()> {
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        let target = readlinkat(folder, name, Vec::new())?;
        let mut header = header(tar::EntryType::Symlink, 0o777, mtime(stat), 0);
        archive.append_link(&mut header, at, OsStr::from_bytes(target.to_bytes()))
    }

    /// Refuses what would take far more room where it is unpacked than it has here.
    fn count_holes(&mut self, stat: &Stat) -> io::Result<()> {
        self.holes = self.holes.saturating_add(holes(stat));
        if self.holes <= MOST_HOLES {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the holes of its files have more than {} MiB, which a copy would fill",
                MOST_HOLES >> 20
            ),
        ))
    }

    fn file(&mut self, file: OwnedFd, stat: &Stat, at: &Path) -> io::Result<()> {
        // Between the look and the opening, somebody may have put something else there.
        if kind(stat) != FileType::RegularFile {
            return Err(special());
        }
        self.count_holes(stat)?;
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let content = Exactly {
            file: File::from(file),
            left: size,
        };
        append(
            archive,
            at,
            tar::EntryType::Regular,
            mode(stat),
            mtime(stat),
            content,
            size,
        )
    }
}

/// What `stat` says of a file that is not on the disk.
fn holes(stat: &Stat) -> u64 {
    let stored = u64::try_from(stat.st_blocks)
        .unwrap_or_default()
        .saturating_mul(512);
    u64::try_from(stat.st_size)
        .unwrap_or_default()
        .saturating_sub(stored)
}

/// The bytes that the archive's header promised: what is appended meanwhile is left out, what is missing is an error.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..room).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        let read = self.file.read(buffer)?;
        if read == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it became shorter while it was copied",
            ));
        }
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    at: &Path,
    kind: tar::EntryType,
    mode: u32,
    mtime: u64,
    content: impl Read,
    size: u64,
) -> io::Result<()> {
    archive.append_data(&mut header(kind, mode, mtime, size), at, content)
}

/// The files are root's: nobody on the host means anything in the container.
fn header(kind: tar::EntryType, mode: u32, mtime: u64, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(mtime);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Not the set-id bits: with another owner they mean something else.
fn mode(stat: &Stat) -> u32 {
    stat.st_mode & 0o777
}

fn mtime(stat: &Stat) -> u64 {
    u64::try_from(stat.st_mtime).unwrap_or_default()
}

fn special() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is no file, folder or link; sockets, pipes and devices are not copied",
    )
}

fn source_error(path: &Path, source: io::Error) -> RunError {
    RunError::Source {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// What is at each path: kind, mode, and content or target.
    fn unpacked(archive: &[u8]) -> BTreeMap<String, (char, u32, String)> {
        let mut archive = tar::Archive::new(archive);
        let entry = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mode = entry.header().mode().unwrap();
            assert_eq!(
                (entry.header().uid().unwrap(), entry.header().gid().unwrap()),
                (0, 0)
            );
            let (kind, text) = match entry.header().entry_type() {
                tar::EntryType::Directory => ('d', String::new()),
                tar::EntryType::Symlink => ('l', entry.link_name().unwrap().unwrap().display().to_string()),
                _ => {
                    let mut text = String::new();
                    entry.read_to_string(&mut text).unwrap();
                    ('f', text)
                }
            };
            (path, (kind, mode, text))
        };
        archive.entries().unwrap().map(entry).collect()
    }

    fn archive(path: &Path, parents: &[&str], at: &str) -> Result<Vec<u8>, RunError> {
        let parents: Vec<PathBuf> = parents.iter().map(PathBuf::from).collect();
        let mut out = Vec::new();
        Tree::open(path)?.write(&parents, Path::new(at), &mut out)?;
        Ok(out)
    }

    #[test]
    fn links_stay_links_and_lead_nowhere() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "hunter2").unwrap();
        let root = folder.path();
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join("sub/run"), "#!").unwrap();
        fs::set_permissions(root.join("sub/run"), fs::Permissions::from_mode(0o6750)).unwrap();
        symlink(outside.path(), root.join("out")).unwrap();
        symlink(outside.path().join("secret"), root.join("sub/secret")).unwrap();
        let found = unpacked(&archive(root, &["a", "a/b"], "a/b/c").unwrap());
        let outside = outside.path().display().to_string();
        let mode = fs::metadata(root).unwrap().permissions().mode() & 0o777;
        let expected = [
            ("a", ('d', 0o755, "")),
            ("a/b", ('d', 0o755, "")),
            ("a/b/c", ('d', mode, "")),
            ("a/b/c/out", ('l', 0o777, outside.as_str())),
            ("a/b/c/sub", ('d', 0o755, "")),
            ("a/b/c/sub/run", ('f', 0o750, "#!")),
            ("a/b/c/sub/secret", ('l', 0o777, &format!("{outside}/secret"))),
        ];
        let expected =
            expected.map(|(path, (kind, mode, text))| (path.to_owned(), (kind, mode, text.to_owned())));
        assert_eq!(found, expected.into());
    }

    #[test]
    fn a_merge_leaves_the_folder_itself_alone_and_a_file_is_one_entry() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x"), "1").unwrap();
        let merged = unpacked(&archive(folder.path(), &[], "").unwrap());
        assert_eq!(merged.into_keys().collect::<Vec<_>>(), ["x"]);
        let single = unpacked(&archive(&folder.path().join("x"), &["d"], "d/y").unwrap());
        assert_eq!(single.into_keys().collect::<Vec<_>>(), ["d", "d/y"]);
    }

    #[test]
    fn what_is_no_file_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [folder.path(), socket.as_path()] {
            assert!(Tree::open(path).is_err(), "{}", path.display());
        }
        let error = Tree::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("socket"), "{error}");
    }

    #[test]
    fn what_takes_the_place_of_a_folder_meanwhile_is_not_followed() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "hunter2").unwrap();
        let sub = folder.path().join("sub");
        fs::create_dir(&sub).unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        fs::remove_dir(&sub).unwrap();
        symlink(outside.path(), &sub).unwrap();
        let mut out = Vec::new();
        tree.write(&[], Path::new("w"), &mut out).unwrap();
        let found = unpacked(&out);
        assert_eq!(found.get("w/sub").map(|entry| entry.0), Some('l'));
        assert!(!found.contains_key("w/sub/secret"));
    }

    #[test]
    fn holes_are_not_blown_up() {
        let folder = tempfile::tempdir().unwrap();
        let hole = |name: &str, size: u64| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_len(size).unwrap();
            folder.path().join(name)
        };
        let small = hole("small", 1 << 20);
        assert_eq!(
            archive(&small, &[], "x").unwrap().len(),
            (1 << 20) + 1536,
            "the control"
        );
        Tree::open(folder.path()).unwrap();
        let large = hole("large", 1 << 40);
        for path in [folder.path(), large.as_path()] {
            let error = Tree::open(path).unwrap_err();
            let RunError::Source { source, .. } = error else {
                panic!("{error}")
            };
            assert!(source.to_string().contains("holes"), "{source}");
        }
        // Many that are small are as bad.
        fs::remove_file(large).unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        hole("a", 1 << 29);
        hole("b", 1 << 29);
        assert!(Tree::open(folder.path()).is_err());
        hole("a", 1 << 40);
        assert!(
            tree.write(&[], Path::new("w"), io::sink()).is_err(),
            "made after the look"
        );
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_and_one_that_grows_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "12345").unwrap();
        let read = |left: u64| {
            let mut text = String::new();
            let file = File::open(&path).unwrap();
            Exactly { file, left }.read_to_string(&mut text).map(|_| text)
        };
        assert_eq!(read(3).unwrap(), "123");
        assert_eq!(read(5).unwrap(), "12345");
        assert_eq!(read(6).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
