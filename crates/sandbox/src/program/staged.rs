//! A program as a file that the engine can mount.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::{Replacement, create_folder};

use super::static_program::sha256;
use super::{ProgramError, StaticProgram};

/// Puts a copy of `program`, called `name`, with the mode `mode`, into the state directory, which
/// the engine sees. Blocks.
pub(super) fn stage(
    program: &StaticProgram,
    name: &str,
    state_dir: &Path,
    mode: u32,
) -> Result<PathBuf, ProgramError> {
    let folder = state_dir.join("programs");
    let path = folder.join(format!("{name}-{}", program.sha256));
    match place(&folder, &path, &program.sha256, mode, || program.content()) {
        Ok(()) => Ok(path),
        Err(source) => Err(ProgramError::Write { path, source }),
    }
}

/// Puts `content`, whose hash is `hash`, at `path`, unless it is there.
fn place(
    folder: &Path,
    path: &Path,
    hash: &str,
    mode: u32,
    content: impl FnOnce() -> io::Result<Vec<u8>>,
) -> io::Result<()> {
    let is_right = || {
        fs::metadata(path).is_ok_and(|facts| facts.permissions().mode() & 0o777 == mode)
            && File::open(path).and_then(|mut there| sha256(&mut there)).is_ok_and(|there| there == hash)
    };
    if is_right() {
        return Ok(());
    }
    create_folder(folder, 0o755)?;
    // A file that another launch has found must not be replaced until it is mounted.
    let alone = File::open(folder)?;
    alone.lock()?;
    if is_right() {
        return Ok(());
    }
    Replacement::shared(mode).write(path, &content()?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const MODE: u32 = 0o511;

    fn place(folder: &Path, path: &Path) -> io::Result<()> {
        let content = b"program";
        super::place(folder, path, &sha256(&mut &content[..]).unwrap(), MODE, || Ok(content.to_vec()))
    }

    #[test]
    fn copy_is_created_once_and_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("programs/x");
        let folder = path.parent().unwrap();
        for _ in 0..2 {
            place(folder, &path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"program");
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, "forged").unwrap();
        place(folder, &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"program");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    }

    #[test]
    fn first_of_concurrent_copies_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("programs/x");
        let begin = std::sync::Barrier::new(8);
        let make = || {
            begin.wait();
            place(path.parent().unwrap(), &path).unwrap();
            fs::metadata(&path).unwrap().ino()
        };
        let files: std::collections::BTreeSet<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(files.len(), 1, "{files:?}");
    }
}
