//! What the kernel's overlay notes about files and folders of its upper layer.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

/// Whether the overlay noted `name` about what is open: `opaque`, `redirect` or `metacopy`. Notes in `trusted.` only the kernel writes; an
/// engine without root uses `user.`, which a task could write too.
///
/// # Errors
///
/// When the notes cannot be read, as of what is open without any right.
pub fn has_note(open: impl AsFd, name: &str) -> io::Result<bool> {
    let mut value = [0_u8; 4];
    match fgetxattr(open, note(name), &mut value[..]) {
        Ok(_) | Err(Errno::RANGE) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Notes for the overlay that the open folder hides the one below it.
///
/// # Errors
///
/// When the file system takes no such notes.
pub fn note_opaque(open: impl AsFd) -> io::Result<()> {
    Ok(fsetxattr(open, note("opaque"), b"y", XattrFlags::empty())?)
}

fn note(name: &str) -> String {
    let space = if rustix::process::geteuid().is_root() { "trusted" } else { "user" };
    format!("{space}.overlay.{name}")
}
