//! The lock of the vendor's own program: a folder that exists during a refresh, and is touched
//! every few seconds.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use sandbox_files::or_absent;
use tokio::time::{Instant, sleep};

/// After this time without a touch, its holder is dead. Our refreshes take less time, so they never
/// touch it.
const STALE: Duration = Duration::from_mins(1);
/// Maximum time to wait for it.
const PATIENCE: Duration = Duration::from_secs(90);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(250);

/// A lock that is held until this value is dropped.
#[derive(Debug)]
pub(crate) struct VendorLock(PathBuf);

impl VendorLock {
    /// Waits for its holder; `None` if it is held for too long.
    pub(crate) async fn take(path: PathBuf) -> io::Result<Option<Self>> {
        let began = Instant::now();
        loop {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Some(Self(path))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            let touched = fs::symlink_metadata(&path).and_then(|held| held.modified());
            let is_stale = touched
                .is_ok_and(|touched| SystemTime::now().duration_since(touched).is_ok_and(|age| age > STALE));
            if is_stale {
                or_absent(fs::remove_dir(&path))?;
                continue;
            }
            if began.elapsed() > PATIENCE {
                return Ok(None);
            }
            // tidy: sleep: there is no event when the other program removes the folder
            sleep(LOOK).await;
        }
    }
}

impl Drop for VendorLock {
    fn drop(&mut self) {
        // A remaining lock is stale a minute later.
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn held_lock_is_awaited_and_a_stale_one_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = VendorLock::take(path.clone()).await.unwrap().unwrap();
        let mut second = std::pin::pin!(VendorLock::take(path.clone()));
        let waited = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
        assert!(waited.is_err(), "it is held");
        drop(first);
        let second = second.await.unwrap().unwrap();
        let old = SystemTime::now() - 2 * STALE;
        fs::File::open(&path).unwrap().set_modified(old).unwrap();
        assert!(VendorLock::take(path.clone()).await.unwrap().is_some());
        drop(second);
        assert!(!path.exists());
    }
}
