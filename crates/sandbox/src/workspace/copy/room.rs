//! Whether there is room for what an apply brings.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use super::super::tree::Tree;
use super::changes::{Change, ChangeKind, EntryKind};
use super::stage;

/// How many bytes those new files among `changes` have on the disk that are copied to `host`.
pub(super) fn needed(upper: &Tree, host: &Tree, changes: &[Change]) -> io::Result<u64> {
    let shared = device(upper)? == device(host)?;
    let mut sum = 0_u64;
    for change in changes {
        if change.entry != EntryKind::File || change.kind == ChangeKind::Removed {
            continue;
        }
        let Some(facts) = upper.facts(&change.path)? else {
            continue;
        };
        if !(shared && stage::can_be_linked(upper, &change.path, &facts)?) {
            sum = sum.saturating_add(facts.stored);
        }
    }
    Ok(sum)
}

fn device(tree: &Tree) -> io::Result<u64> {
    Ok(rustix::fs::fstat(tree.folder(Path::new(""))?)?.st_dev)
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
