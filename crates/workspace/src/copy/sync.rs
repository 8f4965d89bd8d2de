//! Flushes files to the disk, so that they survive a machine failure.

use sandbox_files::tree::{Kind, Tree};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{fsync, syncfs};

/// Above this number, the whole file system is flushed at once: that takes as long as all other
/// writes that wait for it.
const ONE_BY_ONE: usize = 64;

/// Flushes the files and folders `paths` of `tree`, and their parent folders.
pub(super) fn entries(tree: &Tree, paths: &[PathBuf]) -> io::Result<()> {
    if paths.len() > ONE_BY_ONE {
        return whole(tree);
    }
    let mut folders: BTreeSet<&Path> = BTreeSet::new();
    for path in paths {
        let Some(parent) = path.parent() else {
            folders.insert(path);
            continue;
        };
        folders.insert(parent);
        match tree.facts(path)?.map(|facts| facts.kind) {
            // A file that this user cannot open is flushed with all others.
            Some(Kind::File) => match tree.file(path) {
                Ok(file) => file.sync_all()?,
                Err(_) => return whole(tree),
            },
            Some(Kind::Folder) => {
                folders.insert(path);
            }
            _ => {}
        }
    }
    for folder in folders {
        match tree.folder(folder) {
            Ok(folder) => fsync(folder)?,
            Err(_) => return whole(tree),
        }
    }
    Ok(())
}

fn whole(tree: &Tree) -> io::Result<()> {
    Ok(syncfs(tree.folder(Path::new(""))?)?)
}
