//! The work tree of a task: as it is or as a copy, and what the host is kept safe from.

use std::path::Path;

use sandbox::{Mount, Protection, WorkspaceCopy};

use crate::config::{Folder, WorkspaceFile};
use crate::failure::Failure;
use crate::printer::Printer;

/// Whether a task works on the work tree itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WorkspaceMode {
    /// The task changes the work tree
    #[default]
    Direct,
    /// The task changes a copy, which `diff`, `apply` and `discard` are for
    Copy,
}

/// What is protected in the work tree. The settings always are: they are the rules of the next run.
pub(crate) fn protection(file: &WorkspaceFile, unprotected: bool) -> Protection {
    let base = if unprotected || file.protect == Some(false) {
        Protection::none().with([Folder::NAME, Folder::FORMER_NAME])
    } else {
        Protection::default()
    };
    base.with(file.protected_paths.iter().cloned())
}

/// The mount of a work tree, as it was asked for.
pub(crate) fn mounted(mount: Mount, mode: WorkspaceMode, protection: Protection, copy_dir: &Path) -> Mount {
    match mode {
        WorkspaceMode::Copy if !mount.read_only() => {
            Mount::copy_on_write(mount.host_path(), mount.container_path(), copy_dir)
        }
        // Of what is read-only, sockets are covered.
        _ => mount.protected(protection),
    }
}

/// Says that a task will go on with what an earlier one left.
pub(crate) fn tell_pending(mounts: &[Mount], printer: Printer) -> Result<(), Failure> {
    for dir in mounts.iter().filter_map(Mount::copy_dir) {
        if WorkspaceCopy::open(dir)?.is_some() {
            printer
                .message("this run goes on with the copy of the last one; `sandbox discard` throws it away");
        }
    }
    Ok(())
}

/// Says what to do with a copy that has changes; where it has none, nothing is kept of it.
pub(crate) fn tell_changes(
    mounts: &[Mount],
    protection: &Protection,
    printer: Printer,
) -> Result<(), Failure> {
    for dir in mounts.iter().filter_map(Mount::copy_dir) {
        let Some(copy) = WorkspaceCopy::open(dir)? else {
            continue;
        };
        match copy.changes(protection)?.len() {
            0 => copy.discard()?,
            1 => printer.message("1 path differs in the copy: sandbox diff, sandbox apply, sandbox discard"),
            count => printer.message(format_args!(
                "{count} paths differ in the copy: sandbox diff, sandbox apply, sandbox discard"
            )),
        }
    }
    Ok(())
}
