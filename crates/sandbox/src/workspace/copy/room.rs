//! Whether there is room for what an apply brings.

use std::io;
use std::os::fd::AsFd;

use super::super::tree::Tree;
use super::changes::{Change, ChangeKind, EntryKind};

/// How many bytes the new files among `changes` have on the disk.
pub(super) fn needed(upper: &Tree, changes: &[Change]) -> io::Result<u64> {
    let mut sum = 0_u64;
    for change in changes {
        if change.entry == EntryKind::File && change.kind != ChangeKind::Removed {
            let stored = upper.facts(&change.path)?.map_or(0, |facts| facts.stored);
            sum = sum.saturating_add(stored);
        }
    }
    Ok(sum)
}

/// How many bytes are free where `folder` is.
pub(super) fn free(folder: impl AsFd) -> io::Result<u64> {
    let room = rustix::fs::fstatvfs(folder)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Refuses what does not fit.
pub(super) fn check(needed: u64, free: u64) -> io::Result<()> {
    if needed <= free {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::StorageFull,
        format!("{needed} bytes are needed beside the tree, and {free} are free"),
    ))
}
