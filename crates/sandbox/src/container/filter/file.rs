//! The file that the engine reads the profile from.

use std::fs;
use std::path::{Path, PathBuf};

use sandbox_files::{Replacement, create_folder, hex};
use sha2::{Digest as _, Sha256};

use crate::container::ContainerError;

use super::profile::PROFILE;

/// The profile below `state_dir`, named by its content, written if missing. Blocks.
pub(crate) fn write(state_dir: &Path) -> Result<PathBuf, ContainerError> {
    let folder = state_dir.join("seccomp");
    let digest = Sha256::digest(&*PROFILE);
    let name = hex(digest.first_chunk::<16>().map_or(&[], |bytes| bytes));
    let path = folder.join(format!("{name}.json"));
    if fs::read_to_string(&path).is_ok_and(|there| there == *PROFILE) {
        return Ok(path);
    }
    let written = create_folder(&folder, 0o755)
        .and_then(|()| Replacement::shared(0o444).write(&path, PROFILE.as_bytes()));
    match written {
        Ok(()) => Ok(path),
        Err(source) => Err(ContainerError::SandboxFile { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_file_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path()).unwrap();
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
        let first = inode(&path);
        assert_eq!(inode(&write(dir.path()).unwrap()), first);
        assert_eq!(fs::read_to_string(&path).unwrap(), *PROFILE);
    }
}
