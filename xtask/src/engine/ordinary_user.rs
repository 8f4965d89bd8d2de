//! The user who runs engines without root. The user exists only in the systems of those engines,
//! and no other user has the same ids.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use anyhow::{Context, Result};

/// The id of the user and of the user's only group.
pub(crate) const ID: u32 = 64_321;
/// The user's subordinate ids, in the format of `/etc/subuid` and `/etc/subgid`.
const RANGE: &str = "64321:700000:65536\n";

/// Adds the user to the system below `root`.
pub(super) fn add(root: &Path) -> Result<()> {
    for (file, line) in [
        ("etc/passwd", format!("ordinary:x:{ID}:{ID}::/tmp:/bin/sh\n")),
        ("etc/group", format!("ordinary:x:{ID}:\n")),
    ] {
        let file = root.join(file);
        let text = fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        if !text.contains(&line) {
            fs::write(&file, text + &line).with_context(|| format!("failed to write {}", file.display()))?;
        }
    }
    for file in ["etc/subuid", "etc/subgid"] {
        fs::write(root.join(file), RANGE).with_context(|| format!("failed to write {file}"))?;
    }
    Ok(())
}

/// Makes the user the owner of folders.
pub(crate) fn own<P: AsRef<Path>>(folders: &[P]) -> Result<()> {
    for folder in folders {
        let folder = folder.as_ref();
        chown(folder, Some(ID), Some(ID))
            .with_context(|| format!("failed to give {} to the ordinary user", folder.display()))?;
    }
    Ok(())
}

/// The prefix that runs a command as the user, on the file system of the service `pid`, where the
/// user exists.
pub(crate) fn become_on(pid: u32) -> Vec<String> {
    let enter =
        format!("nsenter --mount=/proc/{pid}/ns/mnt -- setpriv --clear-groups --reuid={ID} --regid={ID} --");
    enter.split(' ').map(str::to_owned).collect()
}
