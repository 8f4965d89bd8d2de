//! The kernel overlay's attributes of files and folders in its upper layer.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

/// Whether the overlay set the attribute `name` on the open file: `opaque`, `redirect` or
/// `metacopy`. Only the kernel writes attributes in `trusted.`; an engine without root uses
/// `user.`, which a task could write too.
///
/// # Errors
///
/// If the attributes cannot be read, for example of a file opened without any access right.
pub fn has_note(open: impl AsFd, name: &str) -> io::Result<bool> {
    let mut value = [0_u8; 4];
    match fgetxattr(open, note(name), &mut value[..]) {
        Ok(_) | Err(Errno::RANGE) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Marks the open folder as hiding the one below it.
///
/// # Errors
///
/// If the file system does not support such attributes.
pub fn note_opaque(open: impl AsFd) -> io::Result<()> {
    Ok(fsetxattr(open, note("opaque"), b"y", XattrFlags::empty())?)
}

fn note(name: &str) -> String {
    let space = if rustix::process::geteuid().is_root() { "trusted" } else { "user" };
    format!("{space}.overlay.{name}")
}
