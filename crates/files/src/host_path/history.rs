//! The host folders that tasks have been able to write: a task's files there remain hostile.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::{create_folder, read_if_present};

/// Paths, each between two zeros: a path that a full disk truncated does not run into the next.
const FILE: &str = "writable-folders";

/// The folders and files that tasks of the sandboxes with this state directory can or could write.
///
/// # Errors
///
/// If the record cannot be read.
pub fn writable_folders(state_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let known = read_if_present(&state_dir.join(FILE))?.unwrap_or_default();
    let paths = known.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}

/// Records, before a task starts, that it can write `path`.
///
/// # Errors
///
/// If the record cannot be written.
pub fn remember(state_dir: &Path, path: &Path) -> io::Result<()> {
    if writable_folders(state_dir)?.iter().any(|known| known == path) {
        return Ok(());
    }
    create_folder(state_dir, 0o700)?;
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(state_dir.join(FILE))?;
    // In one write: another sandbox may append at the same time.
    file.write_all(&[b"\0", path.as_os_str().as_bytes(), b"\0"].concat())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folder_is_recorded_once_under_any_name() {
        let state = tempfile::tempdir().unwrap();
        let state = state.path().join("sandbox");
        assert_eq!(writable_folders(&state).unwrap(), Vec::<PathBuf>::new());
        let (app, odd) = (Path::new("/srv/app"), Path::new(OsStr::from_bytes(b"/srv/\xff\nx")));
        for path in [app, odd, app] {
            remember(&state, path).unwrap();
        }
        assert_eq!(writable_folders(&state).unwrap(), [app, odd]);
        // A write that a full disk truncated.
        fs::write(state.join(FILE), b"\0/srv/app\0\0/srv/o").unwrap();
        remember(&state, odd).unwrap();
        assert_eq!(writable_folders(&state).unwrap(), [app, Path::new("/srv/o"), odd]);
    }
}
