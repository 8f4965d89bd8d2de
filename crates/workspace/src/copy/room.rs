//! Checks that there is enough space for an apply.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use sandbox_files::tree::{Kind, Tree};

use super::change::{Change, ChangeKind};
use super::stage;

/// The disk space of the new files among `changes` that `host` gets as copies, in bytes, as far as
/// can be determined without opening them.
pub(super) fn needed(upper: &Tree, host: &Tree, changes: &[Change]) -> io::Result<u64> {
    let shared = device(upper)? == device(host)?;
    let copied = changes.iter().filter_map(|change| {
        let facts = change.now.filter(|facts| facts.kind == Kind::File)?;
        let is_linked = shared
            && change.kind == ChangeKind::Added
            && change.withheld.is_none()
            && stage::may_be_linked(&facts);
        (!is_linked).then_some(facts.stored)
    });
    Ok(copied.fold(0, u64::saturating_add))
}

fn device(tree: &Tree) -> io::Result<u64> {
    Ok(rustix::fs::fstat(tree.folder(Path::new(""))?)?.st_dev)
}

/// The free space in bytes on the file system of `folder`.
pub(super) fn free(folder: impl AsFd) -> io::Result<u64> {
    let room = rustix::fs::fstatvfs(folder)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Refuses changes that do not fit.
pub(super) fn check(needed: u64, free: u64) -> io::Result<()> {
    if needed <= free {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::StorageFull,
        format!("{needed} bytes are needed next to the tree, and {free} are free"),
    ))
}
