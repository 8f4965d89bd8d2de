//! The record of what was trusted: one file for each input, named by its digest.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::{Replacement, create_folder};

use super::input::Input;

/// A folder of the state directory, one for each project.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    folder: PathBuf,
}

impl Store {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Whether the user trusted these very bytes at this place.
    pub(crate) fn is_trusted(&self, input: &Input) -> bool {
        self.file(input).is_file()
    }

    /// Whether an earlier content of the same file was trusted.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return false;
        };
        entries
            .filter_map(Result::ok)
            .filter_map(|entry| fs::read(entry.path()).ok())
            .any(|known| known == path.as_os_str().as_encoded_bytes())
    }

    /// From now on it is trusted, as it is.
    pub(crate) fn record(&self, input: &Input) -> io::Result<()> {
        create_folder(&self.folder, 0o700)?;
        Replacement::shared(0o600).write(&self.file(input), input.path.as_os_str().as_encoded_bytes())
    }

    /// Nothing of the project is trusted any more. Returns whether anything was.
    pub(crate) fn revoke(&self) -> io::Result<bool> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }

    fn file(&self, input: &Input) -> PathBuf {
        self.folder.join(input.digest.hex())
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::Role;
    use super::*;

    #[test]
    fn what_was_recorded_is_trusted_until_it_is_revoked_or_changes() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::new(state.path().join("trust/app"));
        let path = Path::new("/srv/app/policy.yaml");
        let input = |text: &str| Input::new(Role::Allowlist, path, text.as_bytes());
        assert!(!store.is_trusted(&input("1")) && !store.knows(path) && !store.revoke().unwrap());
        store.record(&input("1")).unwrap();
        store.record(&input("1")).unwrap();
        assert!(store.is_trusted(&input("1")) && store.knows(path));
        assert!(!store.is_trusted(&input("2")));
        assert!(store.revoke().unwrap());
        assert!(!store.is_trusted(&input("1")) && !store.knows(path));
    }
}
