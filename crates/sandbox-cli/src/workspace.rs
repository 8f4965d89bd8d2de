//! The work tree of a task: as it is or as a copy, and what the host is kept safe from.

use std::path::Path;

use sandbox::Mount;
use sandbox::workspace::Protection;

use crate::config::{Folder, WorkspaceFile};

/// Whether a task works on the work tree itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WorkspaceMode {
    /// Work on a copy; when the task is over, apply what is safe, and hold back what programs of this machine would follow on their own
    Auto,
    /// Work on a copy, and keep the changes for `sandbox diff`, `apply` and `discard`
    Copy,
    /// Mount the work tree itself: what is new at a protected path is moved away only when the task is over, not while it runs, and not
    /// when the sandbox is killed
    Direct,
}

impl WorkspaceMode {
    /// As it is written on the command line.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Copy => "copy",
            Self::Direct => "direct",
        }
    }
}

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
