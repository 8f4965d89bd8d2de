//! The folders of an engine's overlay: a task's changes go to the upper one, and the lower one
//! remains unchanged.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use super::error::WorkspaceError;

/// The upper layer.
pub(crate) const UPPER: &str = "upper";
/// The folder that the kernel needs next to it.
pub(crate) const WORK: &str = "work";
/// The type that `statfs` reports for an overlay, on which no other can be stacked.
const OVERLAYFS: u64 = 0x794c_7630;

/// The folders that the engine's overlay writes to.
#[must_use]
pub fn overlay_folders(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join(UPPER), folder.join(WORK))
}

/// Whether `path` can be an option of an overlay, whose grammar has no quotes that every engine
/// passes on.
pub(crate) fn can_name(path: &Path) -> bool {
    path.to_str().is_some_and(|path| !path.contains([':', ',', '\\', '"', '\n']))
}

/// Creates the folders of an overlay over `lower` in `folder`, if they do not exist.
pub(crate) fn make(lower: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let failed = |source| WorkspaceError::new("prepare a copy in", folder, source);
    let kind = rustix::fs::statfs(folder).map_err(|error| failed(error.into()))?.f_type;
    if u64::try_from(kind) == Ok(OVERLAYFS) {
        return Err(WorkspaceError::unreadable(
            folder,
            "it is on an overlay, on which the kernel stacks no other; keep the state on another file system",
        ));
    }
    let (upper, work) = overlay_folders(folder);
    fs::create_dir(&work).map_err(failed)?;
    fs::create_dir(&upper).map_err(failed)?;
    // The task sees the upper folder's metadata at the top.
    let top = fs::metadata(lower).map_err(failed)?;
    if rustix::process::geteuid().is_root() {
        chown(&upper, Some(top.uid()), Some(top.gid())).map_err(failed)?;
    }
    fs::set_permissions(&upper, Permissions::from_mode(top.mode() & 0o7777)).map_err(failed)
}
