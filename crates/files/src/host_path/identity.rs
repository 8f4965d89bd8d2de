//! The identity of a file or folder, independent of its name.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Statx, StatxFlags, statx};

/// Device and inode of a file or folder: the same under every name, through every bind mount and
/// after a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    device: (u32, u32),
    inode: u64,
}

impl Identity {
    /// The identity of an open file, in any mode.
    ///
    /// # Errors
    ///
    /// If the file system does not answer.
    pub fn of(open: impl AsFd) -> io::Result<Self> {
        let found = statx(open, "", AtFlags::EMPTY_PATH, StatxFlags::INO)?;
        Ok(Self::from(&found))
    }
}

impl From<&Statx> for Identity {
    fn from(found: &Statx) -> Self {
        Self { device: (found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino }
    }
}
