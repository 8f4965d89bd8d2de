//! A folder or file of the host as a tar archive.
//!
//! A task that can write the folder may change it meanwhile: because no link is followed, nothing
//! outside of it gets into the archive.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sandbox_files::tree::{Facts, Kind, Tree, holes};

use crate::error::RunError;

/// The deepest nesting of folders: the paths of deeper ones would be too long.
const MAX_DEPTH: usize = 200;
/// The bytes of holes in all files together: they become zeros in an archive and in the unpacked
/// copy.
const MAX_HOLES: u64 = 1 << 30;

/// The source of a copy. Its own path may be a link; no link inside of it is followed.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    top: Top,
}

#[derive(Debug)]
enum Top {
    Folder(Tree),
    File(File),
}

impl Source {
    /// Opens `path`, and checks that it can be copied in its current state.
    pub(super) fn open(path: &Path) -> Result<Self, RunError> {
        let top = match Tree::open(path) {
            Ok(tree) => Ok(Top::Folder(tree)),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => regular_file(path).map(Top::File),
            Err(error) => Err(error),
        };
        let source = Self { path: path.to_owned(), top: top.map_err(|source| source_error(path, source))? };
        Walk::<io::Sink>::new(None).source(&source, Path::new(""))?;
        Ok(source)
    }

    pub(super) fn is_dir(&self) -> bool {
        matches!(self.top, Top::Folder(_))
    }

    /// Writes an archive: the folders `parents`, then this source at `at`. An empty `at` is the
    /// folder in which the archive is unpacked: it is unchanged itself, and gets the contents of
    /// the source.
    pub(super) fn write(self, parents: &[PathBuf], at: &Path, out: impl Write) -> Result<(), RunError> {
        let failed = |source| source_error(&self.path, source);
        let mut archive = tar::Builder::new(out);
        for parent in parents {
            let mut header = header(tar::EntryType::Directory, 0o755, 0, 0);
            archive.append_data(&mut header, parent, io::empty()).map_err(failed)?;
        }
        let mut walk = Walk::new(Some(archive));
        walk.source(&self, at)?;
        match walk.archive {
            Some(archive) => archive.into_inner().and_then(|mut out| out.flush()).map_err(failed),
            None => Ok(()),
        }
    }
}

/// The file may have become a pipe or a device: opening it must neither block nor have an effect.
fn regular_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(special()) }
}

struct Walk<W: Write> {
    /// `None`: only checks.
    archive: Option<tar::Builder<W>>,
    /// The bytes of holes in the files so far.
    holes: u64,
}

impl<W: Write> Walk<W> {
    fn new(archive: Option<tar::Builder<W>>) -> Self {
        Self { archive, holes: 0 }
    }

    fn source(&mut self, source: &Source, at: &Path) -> Result<(), RunError> {
        let failed = |error| source_error(&source.path, error);
        let tree = match &source.top {
            Top::File(file) => return self.file(file, at).map_err(failed),
            Top::Folder(tree) => tree,
        };
        if !at.as_os_str().is_empty() {
            let facts = tree.listing(Path::new("")).map_err(failed)?.facts;
            self.folder_entry(&facts, at).map_err(failed)?;
        }
        self.folder(tree, Path::new(""), at, 0)
    }

    /// Archives the contents of the folder `inner` of `tree` at `at`.
    fn folder(&mut self, tree: &Tree, inner: &Path, at: &Path, depth: usize) -> Result<(), RunError> {
        let failed = |inner: &Path| {
            let host = tree.path().join(inner);
            move |error| source_error(&host, error)
        };
        if depth > MAX_DEPTH {
            let problem = format!("it is nested deeper than {MAX_DEPTH} folders");
            return Err(failed(inner)(io::Error::other(problem)));
        }
        // Sorted by name: equal files give equal archives.
        for (name, facts) in tree.list_facts(inner).map_err(failed(inner))? {
            let (inner, at) = (inner.join(&name), at.join(&name));
            if facts.kind == Kind::Folder {
                self.folder_entry(&facts, &at).map_err(failed(&inner))?;
                self.folder(tree, &inner, &at, depth + 1)?;
            } else {
                self.leaf(tree, &inner, &facts, &at).map_err(failed(&inner))?;
            }
        }
        Ok(())
    }

    fn leaf(&mut self, tree: &Tree, inner: &Path, facts: &Facts, at: &Path) -> io::Result<()> {
        match facts.kind {
            Kind::Link => self.link(&tree.target(inner)?, facts, at),
            Kind::File if self.archive.is_none() && facts.stored >= facts.size => Ok(()),
            Kind::File => self.file(&tree.file(inner)?, at),
            Kind::Folder | Kind::Special => Err(special()),
        }
    }

    fn folder_entry(&mut self, facts: &Facts, at: &Path) -> io::Result<()> {
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        let mut header = header(tar::EntryType::Directory, mode(facts), mtime(facts), 0);
        archive.append_data(&mut header, at, io::empty())
    }

    fn link(&mut self, target: &Path, facts: &Facts, at: &Path) -> io::Result<()> {
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        let mut header = header(tar::EntryType::Symlink, 0o777, mtime(facts), 0);
        archive.append_link(&mut header, at, target)
    }

    /// Refuses files that would take far more space when unpacked.
    fn count_holes(&mut self, file: &File, facts: &Facts) -> io::Result<()> {
        self.holes = self.holes.saturating_add(holes(file, facts, MAX_HOLES)?);
        if self.holes <= MAX_HOLES {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the holes of its files have more than {} MiB, which a copy would allocate",
                MAX_HOLES >> 20
            ),
        ))
    }

    fn file(&mut self, file: &File, at: &Path) -> io::Result<()> {
        // Metadata of the open file: it may have been replaced since the check.
        let facts = Facts::of(file)?;
        self.count_holes(file, &facts)?;
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        let mut header = header(tar::EntryType::Regular, mode(&facts), mtime(&facts), facts.size);
        let left = facts.size;
        archive.append_data(&mut header, at, Exactly { file, left })
    }
}

/// Reads exactly the bytes that the archive's header promised: appended bytes are left out, missing
/// ones are an error.
struct Exactly<'a> {
    file: &'a File,
    left: u64,
}

impl Read for Exactly<'_> {
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

/// The files belong to root: users of the host have no meaning in the container.
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

/// Without the set-id bits, which mean something else with another owner.
fn mode(facts: &Facts) -> u32 {
    facts.mode & 0o777
}

fn mtime(facts: &Facts) -> u64 {
    u64::try_from(facts.modified.0).unwrap_or_default()
}

fn special() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is not a file, folder or link; sockets, pipes and devices are not copied",
    )
}

fn source_error(path: &Path, source: io::Error) -> RunError {
    RunError::Source { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The kind, mode, and content or target at each path.
    fn unpacked(archive: &[u8]) -> BTreeMap<String, (char, u32, String)> {
        let mut archive = tar::Archive::new(archive);
        let entry = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mode = entry.header().mode().unwrap();
            assert_eq!((entry.header().uid().unwrap(), entry.header().gid().unwrap()), (0, 0));
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
        Source::open(path)?.write(&parents, Path::new(at), &mut out)?;
        Ok(out)
    }

    #[test]
    fn link_is_copied_as_a_link() {
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
    fn merged_folder_has_no_entry_of_its_own_and_a_file_has_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x"), "1").unwrap();
        let merged = unpacked(&archive(folder.path(), &[], "").unwrap());
        assert_eq!(merged.into_keys().collect::<Vec<_>>(), ["x"]);
        let single = unpacked(&archive(&folder.path().join("x"), &["d"], "d/y").unwrap());
        assert_eq!(single.into_keys().collect::<Vec<_>>(), ["d", "d/y"]);
    }

    #[test]
    fn source_that_is_not_a_file_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [folder.path(), socket.as_path()] {
            assert!(Source::open(path).is_err(), "{}", path.display());
        }
        let error = Source::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("socket"), "{error}");
    }

    #[test]
    fn folder_replaced_by_a_link_is_not_followed() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "hunter2").unwrap();
        let sub = folder.path().join("sub");
        fs::create_dir(&sub).unwrap();
        let tree = Source::open(folder.path()).unwrap();
        fs::remove_dir(&sub).unwrap();
        symlink(outside.path(), &sub).unwrap();
        let mut out = Vec::new();
        tree.write(&[], Path::new("w"), &mut out).unwrap();
        let found = unpacked(&out);
        assert_eq!(found.get("w/sub").map(|entry| entry.0), Some('l'));
        assert!(!found.contains_key("w/sub/secret"));
    }

    #[test]
    fn sparse_file_with_large_holes_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let hole = |name: &str, size: u64| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_len(size).unwrap();
            folder.path().join(name)
        };
        let small = hole("small", 1 << 20);
        assert_eq!(archive(&small, &[], "x").unwrap().len(), (1 << 20) + 1536, "the control");
        Source::open(folder.path()).unwrap();
        let large = hole("large", 1 << 40);
        for path in [folder.path(), large.as_path()] {
            let error = Source::open(path).unwrap_err();
            let RunError::Source { source, .. } = error else { panic!("{error}") };
            assert!(source.to_string().contains("holes"), "{source}");
        }
        // Many small ones are as bad.
        fs::remove_file(large).unwrap();
        let tree = Source::open(folder.path()).unwrap();
        hole("a", 1 << 29);
        hole("b", 1 << 29);
        assert!(Source::open(folder.path()).is_err());
        hole("a", 1 << 40);
        assert!(tree.write(&[], Path::new("w"), io::sink()).is_err(), "made after the look");
    }

    #[test]
    fn shrinking_file_is_an_error_and_growing_file_is_truncated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "12345").unwrap();
        let read = |left: u64| {
            let mut text = String::new();
            let file = File::open(&path).unwrap();
            Exactly { file: &file, left }.read_to_string(&mut text).map(|_| text)
        };
        assert_eq!(read(3).unwrap(), "123");
        assert_eq!(read(5).unwrap(), "12345");
        assert_eq!(read(6).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
