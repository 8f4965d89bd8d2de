//! The work tree of a task: as it is or as a copy, and what the host is kept safe from.

use std::path::Path;

use sandbox::Mount;
use sandbox::workspace::Protection;

use crate::config::{Folder, WorkspaceFile, WorkspaceMode};

/// What is protected in the work tree. The settings always are: they are the rules of the next run.
pub(crate) fn protection(file: &WorkspaceFile, unprotected: bool) -> Protection {
    protection_elsewhere(file, unprotected).with(file.protected_paths.iter().cloned())
}

/// What is protected in other folders that the task can write.
pub(crate) fn protection_elsewhere(file: &WorkspaceFile, unprotected: bool) -> Protection {
    if unprotected || file.protect == Some(false) {
        Protection::none().with([Folder::NAME, Folder::FORMER_NAME])
    } else {
        Protection::default()
    }
}

/// The mount of a work tree, as it was asked for.
pub(crate) fn mounted(mount: Mount, mode: WorkspaceMode, protection: Protection, copy_dir: &Path) -> Mount {
    match mode {
        WorkspaceMode::Auto | WorkspaceMode::Copy if !mount.read_only() => {
            Mount::copy_on_write(mount.host_path(), mount.container_path(), copy_dir)
        }
        // Of what is read-only, sockets are covered.
        _ => mount.protected(protection),
    }
}
