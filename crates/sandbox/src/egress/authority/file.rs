//! The root authority's file: key and certificate in one, so that it is complete or missing.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::{FileLock, Replacement};

use crate::egress::ProxyError;

const FOLDER: &str = "authority";
const NAME: &str = "root.pem";

/// The path of the file, and the lock that is needed to create it.
#[derive(Debug)]
pub(super) struct AuthorityFile {
    path: PathBuf,
    /// Held until this value is dropped: two processes that start together create one authority.
    _lock: FileLock,
}

impl AuthorityFile {
    /// Blocks while another process creates the authority.
    pub(super) fn lock(state_dir: &Path) -> Result<Self, ProxyError> {
        let path = state_dir.join(FOLDER).join("lock");
        let lock = FileLock::exclusive_blocking(&path).map_err(ProxyError::file("lock", &path))?;
        Ok(Self { path: Self::path_in(state_dir), _lock: lock })
    }

    pub(super) fn path_in(state_dir: &Path) -> PathBuf {
        state_dir.join(FOLDER).join(NAME)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file's text; `None` if it was never created.
    pub(super) fn read(&self) -> Result<Option<String>, ProxyError> {
        let metadata = match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(ProxyError::file("look at", &self.path))?,
        };
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(self.damaged("others than its owner may use it"));
        }
        match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(self.damaged("it is not text")),
            read => read.map(Some).map_err(ProxyError::file("read", &self.path)),
        }
    }

    /// Writes the file, synced to disk before it gets its name.
    pub(super) fn write(&self, text: &str) -> Result<(), ProxyError> {
        let written = Replacement::private().durable().write(&self.path, text.as_bytes());
        written.map_err(ProxyError::file("write the root authority to", &self.path))
    }

    pub(super) fn damaged(&self, problem: &str) -> ProxyError {
        ProxyError::DamagedAuthority { path: self.path.clone(), problem: problem.to_owned() }
    }
}
