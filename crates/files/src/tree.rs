//! A host folder whose content an attacker may have written: no access through it follows a
//! symbolic link or leaves it.
#![expect(
    clippy::missing_errors_doc,
    reason = "each fails where the kernel refuses, and where a link would have to be followed"
)]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, Statx, StatxFlags, Uid,
    chmodat, fchmod, fchown, mkdirat, mknodat, openat, openat2, readlinkat, seek, statx,
};
use rustix::io::Errno;

use crate::host_path::Identity;

/// Bytes of names requested from the kernel at once: enough for all of most folders.
const LISTED_AT_ONCE: usize = 32 << 10;

/// An open folder.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    path: PathBuf,
}

/// The kind of an entry. Devices, sockets and pipes are `Special`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A symbolic link.
    Link,
    /// Anything else.
    Special,
}

/// An entry of a folder, in its present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Its kind.
    pub kind: Kind,
    /// Identifies its version.
    pub stamp: InodeStamp,
    /// Permissions, including set-user-id and the like.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The number of its names.
    pub links: u32,
    /// Bytes of its content.
    pub size: u64,
    /// Bytes that it occupies on the disk: fewer than its size if it has holes.
    pub stored: u64,
    /// The time of the last change of its content: seconds and nanoseconds since 1970. Anyone who
    /// may write the file can set this.
    pub modified: (i64, u32),
    /// Whether it is a character device with the number 0, which marks a removed entry in an
    /// overlay.
    pub is_whiteout: bool,
    /// A Unix socket.
    pub is_socket: bool,
}

/// The entries of an open folder.
#[derive(Debug)]
pub struct Listing {
    folder: OwnedFd,
    /// The folder itself.
    pub facts: Facts,
    /// Sorted by name.
    pub entries: Vec<(OsString, Kind)>,
}

/// Identifies the version of a file. No process can set the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct InodeStamp {
    /// Major and minor number.
    pub device: (u32, u32),
    /// The inode number.
    pub inode: u64,
    /// Seconds and nanoseconds since 1970.
    pub changed: (i64, u32),
}

impl Tree {
    /// Opens the folder at `path`; links in this path are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: openat(CWD, path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// The folder `relative` as a separate tree.
    pub fn inner(&self, relative: &Path) -> io::Result<Self> {
        Ok(Self { root: self.folder(relative)?, path: self.path.join(relative) })
    }

    /// Its identity, independent of its name.
    pub fn identity(&self) -> io::Result<Identity> {
        Identity::of(&self.root)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path by which only this process reaches it, even if someone moves it meanwhile.
    #[must_use]
    pub fn reached(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd()))
    }

    /// The folder `relative`; an empty path is the tree itself.
    pub fn folder(&self, relative: &Path) -> io::Result<OwnedFd> {
        self.beneath(relative, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The parent folder of `relative`, and its name there.
    pub fn parent<'a>(&self, relative: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
        let name = relative.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.folder(relative.parent().unwrap_or(Path::new("")))?, name))
    }

    /// The regular file `relative`, for reading.
    pub fn file(&self, relative: &Path) -> io::Result<File> {
        // Opening a pipe would wait for its other end, and a terminal would become ours.
        let file = File::from(self.beneath(relative, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "no regular file"))
        }
    }

    /// Opens any entry `relative` without any access right.
    pub fn held(&self, relative: &Path) -> io::Result<OwnedFd> {
        self.beneath(relative, OFlags::PATH)
    }

    /// The facts about `relative`; `None` if it does not exist.
    pub fn facts(&self, relative: &Path) -> io::Result<Option<Facts>> {
        let found = self.parent(relative).and_then(|(folder, name)| {
            let what = StatxFlags::BASIC_STATS;
            Ok(statx(&folder, name, AtFlags::SYMLINK_NOFOLLOW, what)?)
        });
        match found {
            Ok(found) => Ok(Some(Facts::from(&found))),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The entries of the folder `relative`, sorted by name.
    pub fn list(&self, relative: &Path) -> io::Result<Vec<(OsString, Kind)>> {
        entries(&self.folder(relative)?, usize::MAX)
    }

    /// As [`list`](Self::list), for at most `most` names;
    /// [`FileTooLarge`](io::ErrorKind::FileTooLarge) if there are more.
    pub fn list_at_most(&self, relative: &Path, most: usize) -> io::Result<Vec<(OsString, Kind)>> {
        entries(&self.folder(relative)?, most)
    }

    /// The folder `relative` with its entries. Fails if its entries cannot be opened: only their
    /// names are known then.
    pub fn listing(&self, relative: &Path) -> io::Result<Listing> {
        let folder = self.folder(relative)?;
        // Uses its own entry, so that a folder whose entries cannot be opened is refused.
        let facts = Facts::from(&statx(&folder, ".", AtFlags::empty(), StatxFlags::BASIC_STATS)?);
        Ok(Listing { entries: entries(&folder, usize::MAX)?, folder, facts })
    }

    /// The target of the link `relative`.
    pub fn target(&self, relative: &Path) -> io::Result<PathBuf> {
        use std::os::unix::ffi::OsStringExt as _;
        let (folder, name) = self.parent(relative)?;
        let target = readlinkat(&folder, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// The entries of the folder `relative` with their facts, sorted by name. Fails if an entry is
    /// removed meanwhile.
    pub fn list_facts(&self, relative: &Path) -> io::Result<Vec<(OsString, Facts)>> {
        let folder = self.folder(relative)?;
        let entries = self.list(relative)?.into_iter().map(|(name, _)| {
            let what = StatxFlags::BASIC_STATS;
            let found = statx(&folder, &name, AtFlags::SYMLINK_NOFOLLOW, what)?;
            Ok((name, Facts::from(&found)))
        });
        entries.collect()
    }

    /// Whether entries of the folder `relative` can be opened by name: that needs another
    /// permission than listing it.
    pub fn can_be_entered(&self, relative: &Path) -> io::Result<bool> {
        let entered = self
            .held(relative)
            .and_then(|folder| Ok(statx(&folder, ".", AtFlags::empty(), StatxFlags::TYPE)?));
        match entered {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Adds `bits` to the permissions of `relative`, which must not be a link. Fails if another
    /// user owns it.
    pub fn grant(&self, relative: &Path, bits: u32) -> io::Result<()> {
        self.change_mode(relative, |mode| mode | bits)
    }

    /// Removes `bits` from the permissions of `relative`, which must not be a link. Fails if
    /// another user owns it.
    pub fn revoke(&self, relative: &Path, bits: u32) -> io::Result<()> {
        self.change_mode(relative, |mode| mode & !bits)
    }

    /// Creates the missing folder `relative` and its parents, with the permissions, and for root
    /// with the owners, that they have in `like`. Their owner can write in them. Fails if `like`
    /// has no such folder.
    pub fn make_folders(&self, relative: &Path, like: &Self) -> io::Result<()> {
        let mut missing = Vec::new();
        for folder in relative.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
            if self.facts(folder)?.is_some() {
                break;
            }
            missing.push(folder);
        }
        for folder in missing.into_iter().rev() {
            let facts = like.facts(folder)?.filter(|facts| facts.kind == Kind::Folder);
            let facts = facts.ok_or(io::ErrorKind::NotFound)?;
            let (parent, name) = self.parent(folder)?;
            mkdirat(&parent, name, Mode::from_raw_mode(0o700))?;
            // Without permissions for its owner, nothing could be put into it.
            own(self.folder(folder)?, &Facts { mode: facts.mode | 0o700, ..facts })?;
        }
        Ok(())
    }

    /// Creates the file `relative`, which must not exist, with `from`'s content at the same path,
    /// and like [`make_folders`](Self::make_folders) with its permissions and owner. Returns its
    /// size; fails without copying if that exceeds `most` bytes.
    pub fn copy_file(&self, relative: &Path, from: &Self, most: u64) -> io::Result<u64> {
        let mut source = from.file(relative)?;
        let facts = Facts::of(&source)?;
        if facts.size > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut made = self.create_file(relative, &facts)?;
        io::copy(&mut io::Read::take(&mut source, facts.size), &mut made)
    }

    /// Creates the empty file `relative`, which must not exist, with the permissions, and for root
    /// with the owner, of `facts`.
    pub fn create_file(&self, relative: &Path, facts: &Facts) -> io::Result<File> {
        let (parent, name) = self.parent(relative)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&parent, name, flags, Mode::from_raw_mode(0o600))?;
        own(&made, facts)?;
        Ok(File::from(made))
    }

    /// Creates the entry that hides `relative` of the lower layer, in the upper layer of an
    /// overlay.
    pub fn hide(&self, relative: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(relative)?;
        Ok(mknodat(&parent, name, FileType::CharacterDevice, Mode::empty(), 0)?)
    }

    fn change_mode(&self, relative: &Path, change: impl FnOnce(u32) -> u32) -> io::Result<()> {
        let held;
        // The tree itself is open, and may have lost its permissions.
        let what = if relative.as_os_str().is_empty() {
            self.root.as_fd()
        } else {
            held = self.held(relative)?;
            held.as_fd()
        };
        let found = Facts::of(what)?;
        if found.kind == Kind::Link {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mode = Mode::from_raw_mode(change(found.mode));
        // The permissions of a descriptor without access rights can only be changed through this
        // path.
        let name = format!("/proc/self/fd/{}", what.as_raw_fd());
        Ok(chmodat(CWD, name, mode, AtFlags::empty())?)
    }

    fn beneath(&self, relative: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // The kernel gives up with EAGAIN if an entry on the way is renamed meanwhile.
        for _ in 0..16 {
            match openat2(&self.root, relative, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                opened => return Ok(opened?),
            }
        }
        Err(Errno::AGAIN.into())
    }
}

/// Sets the permissions, and for root the owner, of an open entry to those of `facts`.
fn own(made: impl AsFd, facts: &Facts) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        fchown(&made, Some(Uid::from_raw(facts.uid)), Some(Gid::from_raw(facts.gid)))?;
    }
    Ok(fchmod(&made, Mode::from_raw_mode(facts.mode & 0o7777))?)
}

/// The entries of an open folder that has not been read yet, sorted by name: at most `most`.
fn entries(folder: &OwnedFd, most: usize) -> io::Result<Vec<(OsString, Kind)>> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut entries = Vec::new();
    let mut buffer = Vec::with_capacity(LISTED_AT_ONCE);
    let mut found = RawDir::new(folder, buffer.spare_capacity_mut());
    while let Some(entry) = found.next() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if entries.len() >= most {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it has more than {most} entries"),
            ));
        }
        let kind = match entry.file_type() {
            // Some file systems do not report the kind in the list.
            FileType::Unknown => {
                let what = StatxFlags::BASIC_STATS;
                Facts::from(&statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, what)?).kind
            }
            kind => kind.into(),
        };
        entries.push((name.to_owned(), kind));
    }
    entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

impl Listing {
    /// The facts about its entry `name`; `None` if it does not exist.
    pub fn facts_of(&self, name: &OsStr) -> io::Result<Option<Facts>> {
        match statx(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS) {
            Ok(found) => Ok(Some(Facts::from(&found))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Bytes of the holes of `file`, whose facts are `facts`; not all of them if they are more than `most`.
/// Compression is no hole.
pub fn holes(file: &File, facts: &Facts, most: u64) -> io::Result<u64> {
    let (mut holes, mut at) = (0_u64, 0);
    // Otherwise it has none, or almost none.
    while facts.stored < facts.size && at < facts.size && holes <= most {
        let start = seek(file, SeekFrom::Hole(at))?;
        let end = match seek(file, SeekFrom::Data(start)) {
            Err(Errno::NXIO) => facts.size,
            end => end?,
        };
        holes = holes.saturating_add(end.min(facts.size).saturating_sub(start));
        at = end;
    }
    seek(file, SeekFrom::Start(0))?;
    Ok(holes)
}

/// Whether the path does not exist, or leads through a link.
#[must_use]
pub fn is_absence(error: &io::Error) -> bool {
    let known = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP];
    known.iter().any(|known| error.raw_os_error() == Some(known.raw_os_error()))
}

impl Facts {
    /// The stamp of an open file, in any mode.
    pub fn of(open: impl AsFd) -> io::Result<Self> {
        let found = statx(open, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        Ok(Self::from(&found))
    }

    /// Whether both are the same file, possibly under two names.
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.stamp.device, self.stamp.inode) == (other.stamp.device, other.stamp.inode)
    }
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

impl From<&Statx> for Facts {
    fn from(found: &Statx) -> Self {
        let mode = u32::from(found.stx_mode);
        let kind = FileType::from_raw_mode(mode);
        Self {
            kind: kind.into(),
            stamp: InodeStamp {
                device: (found.stx_dev_major, found.stx_dev_minor),
                inode: found.stx_ino,
                changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
            },
            mode: mode & 0o7777,
            uid: found.stx_uid,
            gid: found.stx_gid,
            links: found.stx_nlink,
            size: found.stx_size,
            stored: found.stx_blocks.saturating_mul(512),
            modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
            is_whiteout: kind == FileType::CharacterDevice
                && (found.stx_rdev_major, found.stx_rdev_minor) == (0, 0),
            is_socket: kind == FileType::Socket,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_follows_a_link_or_leaves_the_tree() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "x").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        symlink(outside.path(), folder.path().join("way-out")).unwrap();
        symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        for path in ["way-out/secret", "link", "../x", "/etc/passwd", "sub/../../x", "way-out"] {
            assert!(tree.file(Path::new(path)).is_err(), "{path}");
            assert!(tree.folder(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(tree.facts(Path::new("way-out/secret")).unwrap(), None);
        let kinds: Vec<Kind> = tree.list(Path::new("")).unwrap().into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(kinds, [Kind::Link, Kind::Folder, Kind::Link], "in the order of names");
    }

    #[test]
    fn folder_with_too_many_names_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let tree = Tree::open(folder.path()).unwrap();
        assert_eq!(tree.list_at_most(Path::new(""), 3).unwrap().len(), 3);
        let refused = tree.list_at_most(Path::new(""), 2).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn permissions_are_changed_on_entries_and_not_through_links() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let path = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o7777;
        let set =
            |name: &str, mode| fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        fs::write(path("file"), "x").unwrap();
        symlink("file", path("link")).unwrap();
        fs::create_dir(path("sub")).unwrap();
        set("file", 0o022);
        set("sub", 0o1011);
        set("", 0o311);
        assert!(tree.grant(Path::new("link"), 0o700).is_err() && mode("file") == 0o022);
        assert!(tree.grant(Path::new("missing"), 0o700).is_err());
        for (name, bits, expected) in [("file", 0o400, 0o422), ("sub", 0o500, 0o1511), ("", 0o500, 0o711)] {
            tree.grant(Path::new(name), bits).unwrap();
            assert_eq!(mode(name), expected, "{name:?}");
        }
    }

    #[test]
    fn stamp_changes_with_the_content_and_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "1").unwrap();
        let stamp = || tree.facts(Path::new("f")).unwrap().unwrap().stamp;
        let first = stamp();
        assert_eq!(stamp(), first);
        fs::write(folder.path().join("g"), "1").unwrap();
        fs::rename(folder.path().join("g"), &path).unwrap();
        assert_ne!(stamp().inode, first.inode);
    }
}
