//! Locks between processes, on files.
#![expect(
    clippy::missing_errors_doc,
    reason = "each fails where the kernel refuses to open or to lock the file"
)]

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tokio::sync::oneshot;

use crate::create_folder;

/// A lock that is held until this value is dropped or the process ends.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for all other holders of the lock.
    pub async fn exclusive(path: &Path) -> io::Result<Self> {
        wait(open(path)?, File::lock).await
    }

    /// Waits for a holder of the exclusive lock.
    pub async fn shared(path: &Path) -> io::Result<Self> {
        wait(open(path)?, File::lock_shared).await
    }

    /// As [`shared`](Self::shared), on an open file.
    pub async fn shared_on(file: File) -> io::Result<Self> {
        wait(file, File::lock_shared).await
    }

    /// Waits for all other holders of the lock. Blocks.
    pub fn exclusive_blocking(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        file.lock()?;
        Ok(Self { _file: file })
    }

    /// Returns `None` if another process holds the lock. Blocks on the file system only.
    pub fn try_exclusive(path: &Path) -> io::Result<Option<Self>> {
        Self::try_exclusive_on(open(path)?)
    }

    /// As [`try_exclusive`](Self::try_exclusive), on an open file.
    pub fn try_exclusive_on(file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Waits on a thread of its own: the kernel has no event for a free lock, and a blocking thread of
/// tokio would delay the end of the program if the caller no longer wants the lock.
async fn wait(file: File, lock: fn(&File) -> io::Result<()>) -> io::Result<FileLock> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new().name("file-lock".to_owned()).spawn(move || {
        // The waiter may be gone; the lock is then free again at once.
        let _ = sender.send(lock(&file).map(|()| FileLock { _file: file }));
    })?;
    receiver.await.map_err(io::Error::other)?
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        create_folder(folder, 0o700)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_alone_or_many_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("locks/a");
        let first = FileLock::shared(&path).await.unwrap();
        let second = FileLock::shared(&path).await.unwrap();
        assert!(FileLock::try_exclusive(&path).unwrap().is_none());
        drop(first);
        assert!(FileLock::try_exclusive(&path).unwrap().is_none());
        let (waiting, ()) = tokio::join!(FileLock::exclusive(&path), async { drop(second) });
        let _held = waiting.unwrap();
        assert!(FileLock::try_exclusive(&path).unwrap().is_none());
    }
}
