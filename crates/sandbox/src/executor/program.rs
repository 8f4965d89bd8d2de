//! The supervisor as a file that the engine can mount.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::config::SandboxConfig;
use crate::program::StaticProgram;
use crate::spec::Mount;

use super::ExecutorError;

const NAME: &str = "sandbox-supervisor";
/// Where containers see it.
pub(super) const PROGRAM: &str = "/run/sandbox/supervisor";
/// Others may execute it and not read it: the kernel hides the memory and the streams of such a process from them.
const MODE: u32 = 0o511;

/// Finds the program and puts a copy into the state directory, which the engine sees. Blocks.
pub(super) fn stage(config: &SandboxConfig) -> Result<Mount, ExecutorError> {
    let program = StaticProgram::find(NAME, config.proxy_dir.as_deref())
        .map_err(|problem| ExecutorError::Supervisor { problem })?;
    let folder = config.state_dir.join("programs");
    let path = folder.join(format!("{NAME}-{}", program.sha256));
    match place(&folder, &path, &program.content) {
        Ok(()) => Ok(Mount::read_only_at(path, PROGRAM)),
        Err(source) => Err(ExecutorError::Program { path, source }),
    }
}

/// Whoever writes the same at the same time writes the same bytes.
fn place(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let is_right = fs::metadata(path).is_ok_and(|facts| facts.permissions().mode() & 0o777 == MODE)
        && fs::read(path).is_ok_and(|there| there == content);
    if is_right {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let unfinished: PathBuf = folder.join(format!("{:016x}", rand::random::<u64>()));
    fs::write(&unfinished, content)?;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(MODE))?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_made_once_and_mended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("programs/x");
        let folder = path.parent().unwrap();
        for _ in 0..2 {
            place(folder, &path, b"program").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"program");
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, "forged").unwrap();
        place(folder, &path, b"program").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"program");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    }
}
