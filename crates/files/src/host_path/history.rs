//! The folders of the host that tasks could write so far: what a task left there is as hostile tomorrow as it is today.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::{create_folder, read_if_present};

/// Paths, each between two zeros: one that a full disk cut off does not run into the next.
const FILE: &str = "writable-folders";

/// The folders and files that tasks of the sandboxes with this state directory could write, now or earlier.
///
/// # Errors
///
/// When what is known of them cannot be read.
pub fn writable_folders(state_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let known = read_if_present(&state_dir.join(FILE))?.unwrap_or_default();
    let paths = known.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}

/// Notes, before a task starts, that it can write `path`.
///
/// # Errors
///
/// When it cannot be noted.
pub fn remember(state_dir: &Path, path: &Path) -> io::Result<()> {
    if writable_folders(state_dir)?.iter().any(|known| known == path) {
        return Ok(());
    }
    create_folder(state_dir, 0o700)?;
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(state_dir.join(FILE))?;
    // In one write: another sandbox may add to it at the same time.
    file.write_all(&[b"\0", path.as_os_str().as_bytes(), b"\0"].concat())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_is_remembered_once_whatever_its_name() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("sandbox");
        assert_eq!(writable_folders(&state).unwrap(), Vec::<PathBuf>::new());
        let (app, odd) = (Path::new("/srv/app"), Path::new(OsStr::from_bytes(b"/srv/\xff\nx")));
        for path in [app, odd, app] {
            remember(&state, path).unwrap();
        }
        assert_eq!(writable_folders(&state).unwrap(), [app, odd]);
        // A write that a full disk cut off.
        fs::write(state.join(FILE), b"\0/srv/app\0\0/srv/o").unwrap();
        remember(&state, odd).unwrap();
        assert_eq!(writable_folders(&state).unwrap(), [app, Path::new("/srv/o"), odd]);
    }
}
