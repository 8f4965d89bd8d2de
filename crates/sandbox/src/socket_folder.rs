//! Folders of Unix sockets for containers: one for each owner, removed with it.
//!
//! A container's users differ from the host's, so a socket is open to every user who reaches it. On
//! the host only this user does, who owns the parent folder.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sandbox_files::create_folder;
use tokio::net::UnixListener;

use crate::spec::Mount;

/// A folder of sockets. Dropping it removes it; [`remove_dead`] removes the folder of a killed
/// process.
#[derive(Debug)]
pub(crate) struct SocketFolder {
    path: PathBuf,
    /// Locked while the folder is in use.
    lock: File,
}

impl SocketFolder {
    /// Creates an empty folder in the state folder. Blocks.
    pub(crate) fn create(state_dir: &Path) -> io::Result<Self> {
        let parent = parent(state_dir);
        create_folder(&parent, 0o700)?;
        // Held until the folder is locked: see `remove_dead`.
        let all = File::open(&parent)?;
        all.lock_shared()?;
        let path = parent.join(format!("{:016x}", rand::random::<u64>()));
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::open(&path)?;
        lock.try_lock()?;
        // Independent of the umask.
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(Self { path, lock })
    }

    /// Listens on a socket named `name`. Blocks.
    pub(crate) fn listen(&self, name: &str) -> io::Result<UnixListener> {
        // A socket's path is limited to 107 bytes; its folder's path may be longer.
        let path = format!("/proc/self/fd/{}/{name}", self.lock.as_raw_fd());
        let listener = std::os::unix::net::UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o666))?;
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener)
    }

    /// The folder at `target` in a container.
    pub(crate) fn mount(&self, target: &str) -> Mount {
        Mount::read_only_at(&self.path, target)
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, folder = %self.path.display(), "failed to remove sockets; the next start removes them");
        }
    }
}

/// Removes the sockets of dead owners.
pub(crate) fn remove_dead(state_dir: &Path) -> io::Result<()> {
    let parent = parent(state_dir);
    let all = match File::open(&parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    // No other process is between creating a folder and locking it.
    if all.try_lock().is_err() {
        return Ok(());
    }
    for entry in fs::read_dir(&parent)? {
        let path = entry?.path();
        if File::open(&path).is_ok_and(|opened| opened.try_lock().is_ok()) {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

fn parent(state_dir: &Path) -> PathBuf {
    state_dir.join("sockets")
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;

    use super::*;

    fn folders(state: &Path) -> usize {
        fs::read_dir(parent(state)).unwrap().count()
    }

    #[tokio::test]
    async fn socket_is_open_in_a_private_folder() {
        let dir = tempfile::tempdir().unwrap();
        // Longer than a socket's path may be.
        let state = dir.path().join("x".repeat(120));
        let folder = SocketFolder::create(&state).unwrap();
        let listener = folder.listen("a.sock").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let modes = [mode(&parent(&state)), mode(&folder.path), mode(&folder.path.join("a.sock"))];
        assert_eq!(modes, [0o700, 0o755, 0o666]);
        let path = format!("/proc/self/fd/{}/a.sock", folder.lock.as_raw_fd());
        let _client = UnixStream::connect(path).await.unwrap();
        listener.accept().await.unwrap();
    }

    #[test]
    fn folder_in_use_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        remove_dead(dir.path()).unwrap();
        let living = SocketFolder::create(dir.path()).unwrap();
        let left = parent(dir.path()).join("0123456789abcdef");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("a.sock"), "").unwrap();
        let busy = File::open(parent(dir.path())).unwrap();
        busy.lock_shared().unwrap();
        remove_dead(dir.path()).unwrap();
        assert_eq!(folders(dir.path()), 2, "another process is creating one");
        drop(busy);
        remove_dead(dir.path()).unwrap();
        assert!(!left.exists() && living.path.exists());
        drop(living);
        assert_eq!(folders(dir.path()), 0);
    }
}
