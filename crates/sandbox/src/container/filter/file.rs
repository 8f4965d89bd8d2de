//! The file that the engine reads the profile from.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::container::ContainerError;
use crate::image::hex;

use super::profile::PROFILE;

/// The profile below `state_dir`, named after its content, written unless it is there. Blocks.
pub(crate) fn write(state_dir: &Path) -> Result<PathBuf, ContainerError> {
    let folder = state_dir.join("seccomp");
    let digest = Sha256::digest(&*PROFILE);
    let name = hex(digest.first_chunk::<16>().map_or(&[], |bytes| bytes));
    let path = folder.join(format!("{name}.json"));
    if fs::read_to_string(&path).is_ok_and(|there| there == *PROFILE) {
        return Ok(path);
    }
    match replace(&folder, &path) {
        Ok(()) => Ok(path),
        Err(source) => Err(ContainerError::SandboxFile { path, source }),
    }
}

/// Whoever writes the same at the same time writes the same bytes.
fn replace(folder: &Path, path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let unfinished = folder.join(format!("{:016x}", rand::random::<u64>()));
    fs::write(&unfinished, &*PROFILE)?;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o444))?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path()).unwrap();
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
        let first = inode(&path);
        assert_eq!(inode(&write(dir.path()).unwrap()), first);
        assert_eq!(fs::read_to_string(&path).unwrap(), *PROFILE);
    }
}
