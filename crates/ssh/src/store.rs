//! The keys of a scope on disk: a folder for each scope (0700), a file for each key (0600), named
//! after its fingerprint.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sandbox_files::{FileLock, Replacement, or_absent};

use crate::key::{KeyFile, SigningKeys, validate_comment};
use crate::{KeyInfo, KeyKind, Passphrase, Scope, SshError, Unlock};

/// The suffix of a key's file.
const ENDING: &str = ".key";

/// The keys of one scope.
#[derive(Debug, Clone)]
pub struct SshScope {
    scope: Scope,
    folder: PathBuf,
    unlock: Unlock,
}

impl SshScope {
    /// The keys of `scope` below the folder `dir`, which belongs to this user alone. Does not read,
    /// create or unlock anything yet.
    #[must_use]
    pub fn open(dir: &Path, scope: Scope, unlock: Unlock) -> Self {
        Self { folder: dir.join(scope.as_str()), scope, unlock }
    }

    /// Its name.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Creates a key. Without a comment there is one for each scope and kind: the second call
    /// returns the first one's key. With a comment (at most 200 bytes, no control characters,
    /// possibly empty) each call creates another.
    ///
    /// # Errors
    ///
    /// If the comment is not valid, the passphrase is not available or differs from that of the
    /// scope's other keys, or the file system refuses.
    pub async fn init(&self, kind: KeyKind, comment: Option<&str>) -> Result<KeyInfo, SshError> {
        if let Some(comment) = comment {
            validate_comment(comment)?;
        }
        let _lock = self.lock().await?;
        let there = self.files()?;
        let main = self.main_comment();
        let is_main = |file: &&(PathBuf, KeyFile)| file.1.info.kind == kind && file.1.info.comment == main;
        if let (None, Some((_, file))) = (comment, there.iter().find(is_main)) {
            return Ok(file.info.clone());
        }
        let comment = comment.map_or(main, str::to_owned);
        let passphrase = self.unlock.passphrase().await?;
        self.add(kind, comment, passphrase, there).await
    }

    /// Creates a new key that replaces all others of the scope. They are removed only once it is on
    /// the disk.
    ///
    /// # Errors
    ///
    /// As [`SshScope::init`]; a passphrase other than that of the old keys is not an error.
    pub async fn rotate(&self, kind: KeyKind) -> Result<KeyInfo, SshError> {
        let _lock = self.lock().await?;
        let old = self.paths()?;
        let passphrase = self.unlock.passphrase().await?;
        let info = self.add(kind, self.main_comment(), passphrase, Vec::new()).await?;
        Self::remove_files(&old)?;
        Ok(info)
    }

    /// Removes all keys of the scope, and returns their number. It needs neither the passphrase nor
    /// valid files.
    ///
    /// # Errors
    ///
    /// If the file system refuses.
    pub async fn remove(&self) -> Result<usize, SshError> {
        let _lock = self.lock().await?;
        let old = self.paths()?;
        Self::remove_files(&old)?;
        Ok(old.len())
    }

    /// The public information about the keys, those created without a comment first. Needs no
    /// passphrase.
    ///
    /// # Errors
    ///
    /// If the file system refuses, or a file is not a key.
    pub fn list(&self) -> Result<Vec<KeyInfo>, SshError> {
        Ok(self.files()?.into_iter().map(|(_, file)| file.info).collect())
    }

    /// The keys themselves, unlocked.
    ///
    /// # Errors
    ///
    /// If there are none, the passphrase is wrong or not available, the file system refuses, or a
    /// file is not a key.
    pub async fn keys(&self) -> Result<SigningKeys, SshError> {
        let files = self.files()?;
        if files.is_empty() {
            return Err(SshError::NoKey { scope: self.scope.clone() });
        }
        let passphrase = self.unlock.passphrase().await?;
        let keys = blocking(move || {
            files.into_iter().map(|(_, file)| file.open(&passphrase)).collect::<Option<Vec<_>>>()
        });
        let keys = keys.await.ok_or_else(|| self.wrong_passphrase())?;
        Ok(SigningKeys { scope: self.scope.clone(), keys })
    }

    /// `there` are keys that the same passphrase must open: a scope has only one.
    async fn add(
        &self,
        kind: KeyKind,
        comment: String,
        passphrase: Passphrase,
        there: Vec<(PathBuf, KeyFile)>,
    ) -> Result<KeyInfo, SshError> {
        let made = blocking(move || {
            if let Some((_, first)) = there.into_iter().next()
                && first.open(&passphrase).is_none()
            {
                return Ok(None);
            }
            KeyFile::make(kind, &comment, &passphrase).map(Some)
        });
        let file = made.await?.ok_or_else(|| self.wrong_passphrase())?;
        let path = self.folder.join(file_name(&file.info.fingerprint));
        let text = file.to_text()?;
        Replacement::private().durable().write(&path, text.as_bytes()).map_err(|source| SshError::Files {
            operation: "write",
            path,
            source,
        })?;
        Ok(file.info)
    }

    fn main_comment(&self) -> String {
        format!("sandbox:{}", self.scope)
    }

    fn wrong_passphrase(&self) -> SshError {
        SshError::WrongPassphrase { scope: self.scope.clone() }
    }

    async fn lock(&self) -> Result<FileLock, SshError> {
        let failed = |operation| {
            let path = self.folder.clone();
            move |source| SshError::Files { operation, path, source }
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        // The umask, or the creator of an existing folder, may have set other permissions.
        made.and_then(|()| fs::set_permissions(&self.folder, Permissions::from_mode(0o700)))
            .map_err(failed("create"))?;
        FileLock::exclusive(&self.folder.join(".lock")).await.map_err(failed("lock"))
    }

    /// The files of keys, sorted by name.
    fn paths(&self) -> Result<Vec<PathBuf>, SshError> {
        let failed = |source| SshError::Files { operation: "read", path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        paths.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.ends_with(ENDING) && !name.starts_with('.')
        });
        paths.sort_unstable();
        Ok(paths)
    }

    /// The keys, those created without a comment first.
    fn files(&self) -> Result<Vec<(PathBuf, KeyFile)>, SshError> {
        let mut files = Vec::new();
        for path in self.paths()? {
            let text = match fs::read_to_string(&path) {
                // Removed since the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => {
                    text.map_err(|source| SshError::Files { operation: "read", path: path.clone(), source })?
                }
            };
            let file = KeyFile::parse(&text).ok_or_else(|| SshError::Damaged { path: path.clone() })?;
            files.push((path, file));
        }
        let main = self.main_comment();
        files.sort_by_key(|(_, file)| file.info.comment != main);
        Ok(files)
    }

    fn remove_files(paths: &[PathBuf]) -> Result<(), SshError> {
        paths.iter().try_for_each(|path| {
            or_absent(fs::remove_file(path)).map_err(|source| SshError::Files {
                operation: "remove",
                path: path.clone(),
                source,
            })
        })
    }
}

/// The fingerprint is base64, whose `/` is not possible in a file name.
fn file_name(fingerprint: &str) -> String {
    let digest = fingerprint.strip_prefix("SHA256:").unwrap_or(fingerprint);
    format!("{}{ENDING}", digest.replace('/', "_"))
}

/// Runs slow work on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that ends cancels it, and then nothing waits for this.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn scope(dir: &Path, passphrase: &str) -> SshScope {
        let unlock = Unlock::Passphrase(Passphrase::new(passphrase).unwrap());
        SshScope::open(dir, "s".parse().unwrap(), unlock)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn scope_has_one_key_until_more_are_requested() {
        let dir = tempfile::tempdir().unwrap();
        let scope = scope(&dir.path().join("ssh"), "p");
        assert!(scope.list().unwrap().is_empty());
        assert!(matches!(scope.keys().await, Err(SshError::NoKey { .. })));
        let error = scope.init(KeyKind::Ed25519, Some("a\nb")).await.unwrap_err();
        assert!(matches!(error, SshError::InvalidComment));
        assert!(!dir.path().join("ssh").exists(), "nothing is created before the name was validated");

        let main = scope.init(KeyKind::Ed25519, None).await.unwrap();
        assert_eq!(main.comment, "sandbox:s");
        assert_eq!(scope.init(KeyKind::Ed25519, None).await.unwrap(), main);
        let side = scope.init(KeyKind::Ed25519, Some("")).await.unwrap();
        let other = scope.init(KeyKind::Ed25519, Some("")).await.unwrap();
        assert!(side.fingerprint != other.fingerprint && side.comment.is_empty());
        let list = scope.list().unwrap();
        assert_eq!((list.len(), &list[0]), (3, &main));
        let keys = scope.keys().await.unwrap();
        assert_eq!(keys.infos().cloned().collect::<Vec<_>>(), list);

        let folder = dir.path().join("ssh/s");
        assert_eq!(mode(&folder), 0o700);
        let files = scope.paths().unwrap();
        assert!(files.len() == 3 && files.iter().all(|file| mode(file) == 0o600));

        let new = scope.rotate(KeyKind::Ed25519).await.unwrap();
        assert!(!list.contains(&new));
        assert_eq!(scope.list().unwrap(), [new]);
        assert_eq!(scope.remove().await.unwrap(), 1);
        assert!(scope.list().unwrap().is_empty());
    }

    #[tokio::test]
    async fn scope_has_one_passphrase() {
        let dir = tempfile::tempdir().unwrap();
        let (right, wrong) = (scope(dir.path(), "right"), scope(dir.path(), "wrong"));
        right.init(KeyKind::Ed25519, None).await.unwrap();
        for refused in [wrong.init(KeyKind::Ed25519, Some("x")).await.map(drop), wrong.keys().await.map(drop)]
        {
            assert!(matches!(refused, Err(SshError::WrongPassphrase { .. })), "{refused:?}");
        }
        assert_eq!(right.list().unwrap().len(), 1);
        wrong.rotate(KeyKind::Ed25519).await.unwrap();
        assert!(wrong.keys().await.is_ok() && right.keys().await.is_err());
    }

    #[tokio::test]
    async fn concurrent_calls_get_the_same_key() {
        let dir = tempfile::tempdir().unwrap();
        let scope = scope(dir.path(), "p");
        let (one, two) = tokio::join!(scope.init(KeyKind::Ed25519, None), scope.init(KeyKind::Ed25519, None));
        assert_eq!(one.unwrap(), two.unwrap());
        assert_eq!(scope.list().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn invalid_key_file_is_named_and_partial_one_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let scope = scope(dir.path(), "p");
        scope.init(KeyKind::Ed25519, None).await.unwrap();
        fs::write(dir.path().join("s/.half.key.new"), "x").unwrap();
        fs::write(dir.path().join("s/.half.key"), "x").unwrap();
        assert_eq!(scope.list().unwrap().len(), 1);
        fs::write(dir.path().join("s/x.key"), "x").unwrap();
        let error = scope.list().unwrap_err();
        assert!(error.to_string().contains("x.key"), "{error}");
        assert_eq!(scope.remove().await.unwrap(), 2);
    }

    #[tokio::test]
    async fn files_are_keys_that_ssh_keygen_reads() {
        let dir = tempfile::tempdir().unwrap();
        let scope = scope(dir.path(), "a passphrase");
        let info = scope.init(KeyKind::Ed25519, None).await.unwrap();
        let file = scope.paths().unwrap().remove(0);
        let keygen = |passphrase| {
            #[expect(clippy::disallowed_methods, reason = "the program that the format is of")]
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-y", "-P", passphrase, "-f"]).arg(&file).output().unwrap()
        };
        let right = keygen("a passphrase");
        let line = String::from_utf8(right.stdout).unwrap();
        assert_eq!(line.trim_end(), info.public_line, "{}", String::from_utf8_lossy(&right.stderr));
        assert!(!keygen("another").status.success());
    }
}
