//! Creates files from a fuzzer's bytes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};

/// Separates entries.
const SEPARATOR: u8 = 0x1e;
/// The maximum number of entries, to keep one run short.
const MOST: usize = 32;
/// The maximum number of folders on the way to an entry.
const DEEPEST: usize = 8;
/// At the start of a link's target, it represents the folder outside, which is not writable.
const OUTSIDE: u8 = b'@';

/// Entries to create, such as `f` for a file, its path, a newline, and its content. An upper-case
/// letter marks the host's; a lower-case one marks the task's.
#[derive(Debug)]
pub(crate) struct Script<'a>(&'a [u8]);

/// One file, folder or link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    kind: u8,
    path: &'a Path,
    content: &'a [u8],
}

impl<'a> Script<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// The host's entries, or the task's.
    pub(crate) fn entries(&self, of_host: bool) -> impl Iterator<Item = Entry<'a>> {
        let entries = self.0.split(|byte| *byte == SEPARATOR).take(MOST);
        entries.filter_map(Entry::read).filter(move |entry| entry.kind.is_ascii_uppercase() == of_host)
    }
}

impl<'a> Entry<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        let (kind, rest) = text.split_first()?;
        let mut parts = rest.splitn(2, |byte| *byte == b'\n');
        let path = Path::new(OsStr::from_bytes(parts.next()?));
        let is_plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let entry = Self { kind: *kind, path, content: parts.next().unwrap_or_default() };
        (is_plain && path.file_name().is_some() && path.components().count() <= DEEPEST).then_some(entry)
    }

    /// Creates it in `root`, with missing folders. Existing entries are unchanged, and no link is
    /// followed.
    pub(crate) fn make(&self, root: &Path, outside: &Path) -> io::Result<()> {
        let mut at = root.to_owned();
        for part in self.path.parent().into_iter().flat_map(Path::components) {
            at.push(part);
            match at.symlink_metadata() {
                Ok(facts) if facts.is_dir() => {}
                Ok(_) => return Ok(()),
                Err(_) => fs::create_dir(&at)?,
            }
        }
        let path = root.join(self.path);
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        let node = |kind| Ok(mknodat(CWD, &path, kind, Mode::from_raw_mode(0o644), 0)?);
        match self.kind.to_ascii_lowercase() {
            b'l' => symlink(self.target(outside), &path),
            b'd' => fs::create_dir(&path),
            b'p' => node(FileType::Fifo),
            b'w' => node(FileType::CharacterDevice),
            b'o' => {
                fs::create_dir(&path)?;
                let folder = File::open(&path)?;
                let name = "trusted.overlay.opaque";
                Ok(rustix::fs::fsetxattr(folder, name, b"y", XattrFlags::empty())?)
            }
            b'x' => {
                fs::write(&path, self.content)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o4755))
            }
            _ => fs::write(&path, self.content),
        }
    }

    fn target(&self, outside: &Path) -> PathBuf {
        let text = |bytes| Path::new(OsStr::from_bytes(bytes)).to_owned();
        match self.content.split_first() {
            Some((&OUTSIDE, rest)) => outside.join(text(rest)),
            _ => text(self.content),
        }
    }
}
