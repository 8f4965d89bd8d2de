//! Getting what was written to the disk, so that a failure of the machine finds it there.

use sandbox_files::tree::{Kind, Tree};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{fsync, syncfs};

/// With more than these, the whole file system is written at once: it takes as long as whatever else waits to be written there.
const ONE_BY_ONE: usize = 64;

/// Writes the files and folders `paths` of `tree`, and the folders that they are in.
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
            // One that this user cannot open is written with all others.
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
