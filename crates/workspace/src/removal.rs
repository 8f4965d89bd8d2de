//! Removes a task's folders, of any depth and without any permissions.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, chmod, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;

/// The permissions that the owner needs to empty a folder.
const OWNER: u32 = 0o700;

/// Removes the folder `path` with all of its content, of any depth and with any permissions; a
/// missing folder counts as removed. Follows no link. Blocks.
///
/// # Errors
///
/// If an entry cannot be removed, such as another user's file; the rest may be gone then.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    match File::open(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        parent => remove(parent?, name),
    }
}

/// Removes `name` in `parent` with all of its content; a missing entry counts as removed. Follows
/// no link, and holds at most three folders open: a folder that is not empty is first moved up next
/// to its parent.
pub(crate) fn remove(parent: impl AsFd, name: &OsStr) -> io::Result<()> {
    let parent = parent.as_fd();
    if is_removed(parent, name)? {
        return Ok(());
    }
    let Some(top) = opened(parent, name)? else {
        return Ok(());
    };
    let mut moved = 0_u64;
    loop {
        let folders = emptied(&top)?;
        if folders.is_empty() {
            break;
        }
        for folder in folders {
            let Some(inner) = opened(top.as_fd(), &folder)? else {
                continue;
            };
            for child in emptied(&inner)? {
                // Moving a folder writes its `..` entry, which needs the permissions that `opened`
                // sets.
                drop(opened(inner.as_fd(), &child)?);
                move_up(&inner, &child, &top, &mut moved)?;
            }
            is_removed(top.as_fd(), &folder)?;
        }
    }
    drop(top);
    if is_removed(parent, name)? { Ok(()) } else { Err(Errno::NOTEMPTY.into()) }
}

/// Removes the entries of `folder` except for folders that are not empty, and returns their names.
fn emptied(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    let mut left = Vec::new();
    for name in names {
        if !is_removed(folder.as_fd(), &name)? {
            left.push(name);
        }
    }
    Ok(left)
}

/// Removes `name` unless it is a folder that is not empty; returns whether it is gone.
fn is_removed(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<bool> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    match unlinkat(folder, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The folder `name`, with the permissions that its owner needs to empty it; `None` if it is gone.
fn opened(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    let held = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match openat(folder, name, held, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        held => held?,
    };
    let mode = fstat(&held)?.st_mode & 0o7777;
    if mode & OWNER != OWNER {
        // Such a descriptor can only be used through its path. If this fails, the next step reports
        // it.
        let named = format!("/proc/self/fd/{}", held.as_raw_fd());
        let _ = chmod(named, Mode::from_raw_mode(mode | OWNER));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(Some(openat(&held, ".", flags, Mode::empty())?))
}

fn move_up(from: &OwnedFd, name: &OsStr, to: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        let place = format!("up-{moved}");
        *moved += 1;
        match renameat(from, name, to, &place) {
            // The task may have chosen such a name.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            Err(Errno::NOENT) => return Ok(()),
            renamed => return Ok(renamed?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::mkdirat;

    use super::super::unprivileged::unprivileged;
    use super::*;

    fn removed(folder: &Path, name: &str) -> io::Result<()> {
        remove(File::open(folder).unwrap(), OsStr::new(name))
    }

    #[test]
    fn folders_deeper_than_a_path_can_name_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut at = OwnedFd::from(File::open(folder.path()).unwrap());
        for name in std::iter::once("top").chain(std::iter::repeat_n("folder", 3000)) {
            mkdirat(&at, name, Mode::from_raw_mode(0o755)).unwrap();
            mkdirat(&at, "up-0", Mode::from_raw_mode(0o755)).ok();
            at = openat(&at, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        remove_folder(&folder.path().join("top")).unwrap();
        assert!(!folder.path().join("top").exists());
        assert!(folder.path().join("up-0").exists(), "its neighbour remains");
        remove_folder(&folder.path().join("top")).unwrap();
        remove_folder(&folder.path().join("no/top")).unwrap();
    }

    #[test]
    fn links_lead_nowhere() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("kept"), "x").unwrap();
        fs::create_dir(folder.path().join("top")).unwrap();
        for link in ["top/inner", "link"] {
            symlink(outside.path(), folder.path().join(link)).unwrap();
        }
        removed(folder.path(), "top").unwrap();
        removed(folder.path(), "link").unwrap();
        assert!(!folder.path().join("top").exists() && !folder.path().join("link").exists());
        assert!(outside.path().join("kept").exists());
    }

    #[test]
    fn unprivileged_user_removes_closed_folders() {
        unprivileged(|| {
            let folder = tempfile::tempdir().unwrap();
            let build = |top: &str| {
                let top = folder.path().join(top);
                fs::create_dir_all(top.join("work")).unwrap();
                fs::create_dir_all(top.join("x/z/z")).unwrap();
                fs::write(top.join("x/y"), "x").unwrap();
                for (path, mode) in [("work", 0o000), ("x/z", 0o500), ("x", 0o000)] {
                    fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).unwrap();
                }
                top
            };
            assert!(fs::remove_dir_all(build("control")).is_err(), "the control");
            let top = build("top");
            removed(folder.path(), "top").unwrap();
            assert!(!top.exists());
            removed(folder.path(), "control").unwrap();
        });
    }
}
