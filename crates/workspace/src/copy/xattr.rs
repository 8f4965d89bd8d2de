//! An overlay's attributes of its files.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::fs::listxattr;
use rustix::io::Errno;
use sandbox_files::overlay::has_note;

/// An overlay's attributes of a file or folder in its upper layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Notes {
    /// The folder hides the one below it.
    pub(super) opaque: bool,
    /// Only the kernel can interpret it: a renamed folder, or a file without its content.
    pub(super) foreign: bool,
}

/// Whether the file of `held` has attributes, set by the kernel or by the task: access lists,
/// capabilities, labels.
pub(super) fn has_any(held: impl AsFd) -> io::Result<bool> {
    // A descriptor without permissions can only be used through its path.
    let name = format!("/proc/self/fd/{}", held.as_fd().as_raw_fd());
    match listxattr(name, &mut [0_u8; 256][..]) {
        Ok(length) => Ok(length > 0),
        Err(Errno::RANGE) => Ok(true),
        Err(Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reads the attributes.
pub(super) fn notes(file: impl AsFd) -> io::Result<Notes> {
    let has = |name: &str| has_note(&file, name);
    Ok(Notes { opaque: has("opaque")?, foreign: has("redirect")? || has("metacopy")? })
}
