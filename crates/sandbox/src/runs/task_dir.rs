//! The folder of a run on the host.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::error::RunError;
use crate::spec::RunName;

/// The folder of the run `name`.
pub(super) fn path(state_dir: &Path, prefix: &str, name: &RunName) -> PathBuf {
    state_dir.join("runs").join(prefix).join(name.as_str())
}

/// Creates a folder that only its owner can read. Returns whether it did not exist before.
pub(super) fn make(path: &Path) -> Result<bool, RunError> {
    let failed = |source| RunError::TaskDir { operation: "make", path: path.to_owned(), source };
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700);
    if let Some(parent) = path.parent() {
        builder.recursive(true).create(parent).map_err(failed)?;
    }
    match builder.recursive(false).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Removes a folder with its contents; a missing one is not an error.
pub(super) fn remove(path: &Path) -> Result<(), RunError> {
    match std::fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RunError::TaskDir { operation: "remove", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn folders_of_prefixes_are_separate_and_private() {
        let state = tempfile::tempdir().unwrap();
        let run: RunName = "r".parse().unwrap();
        let (one, other) = (path(state.path(), "a", &run), path(state.path(), "a-r", &run));
        assert_ne!(one, other);
        assert!(make(&one).unwrap());
        assert!(!make(&one).unwrap(), "it is there");
        let mode = std::fs::metadata(&one).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        remove(&one).unwrap();
        remove(&one).unwrap();
        assert!(!one.exists());
    }
}
