//! The sockets of SSH agents: one for each execution, in a folder that only its container is given.
//!
//! The container's users are others than the host's, so the socket is for everybody who reaches it. On the host nobody does: the folder above
//! belongs to this user alone.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sandbox_files::{create_folder, or_absent};
use sandbox_ssh::{Refusal, SignEvent, Signer, SshError};
use tokio::task::JoinHandle;

use crate::spec::{Mount, SshSigner};

/// Refusals of one execution that are events of `tracing`.
const REPORTED: u32 = 100;

/// An agent that serves until this is dropped.
#[derive(Debug)]
pub(crate) struct RunningAgent {
    folder: PathBuf,
    task: JoinHandle<()>,
    /// Locked as long as the agent lives: see [`remove_old`].
    _lock: File,
}

impl RunningAgent {
    /// What a container gets of it.
    pub(crate) fn mount(&self) -> Mount {
        Mount::read_only_at(&self.folder, SshSigner::FOLDER)
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.task.abort();
        if let Err(error) = remove(&self.folder) {
            tracing::warn!(%error, "the socket of an SSH agent is left behind; a sweep removes it");
        }
    }
}

/// Begins to serve what `signer` says.
pub(crate) fn serve(state_dir: &Path, signer: &SshSigner) -> Result<RunningAgent, SshError> {
    let parent = parent(state_dir);
    let folder = parent.join(format!("{:016x}", rand::random::<u64>()));
    let made = || {
        create_folder(&parent, 0o700)?;
        // Held until the folder is locked: see `remove_old`.
        let all = File::open(&parent)?;
        all.lock_shared()?;
        DirBuilder::new().mode(0o700).create(&folder)?;
        let lock = File::open(&folder)?;
        lock.try_lock()?;
        Ok((bind(&folder, &lock)?, lock))
    };
    let (listener, lock) = made().map_err(|source: io::Error| SshError::Files {
        operation: "make the socket of an agent in",
        path: folder.clone(),
        source,
    })?;
    let signer = Signer::new(Arc::clone(&signer.keys), signer.allowed.clone(), reporter(signer));
    Ok(RunningAgent { folder, task: tokio::spawn(signer.serve(listener)), _lock: lock })
}

/// A socket in `folder`, which `open` is, for everybody. The path of a socket is short, that of a folder need not be.
fn bind(folder: &Path, open: &File) -> io::Result<tokio::net::UnixListener> {
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{}", open.as_raw_fd(), SshSigner::SOCKET))?;
    listener.set_nonblocking(true)?;
    // Whatever the umask is.
    fs::set_permissions(folder.join(SshSigner::SOCKET), Permissions::from_mode(0o666))?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    tokio::net::UnixListener::from_std(listener)
}

fn reporter(signer: &SshSigner) -> impl Fn(&SignEvent) + Send + Sync + 'static {
    let callback = signer.callback.clone();
    let refusals = AtomicU32::new(0);
    move |event| {
        let SignEvent { scope, fingerprint, namespace, outcome, .. } = event;
        match outcome {
            Ok(()) => tracing::info!(%scope, ?fingerprint, ?namespace, "an SSH key signed"),
            Err(refusal) => log_refusal(event, *refusal, refusals.fetch_add(1, Ordering::Relaxed)),
        }
        if let Some(callback) = &callback {
            callback(event);
        }
    }
}

/// A task could fill the log with them.
fn log_refusal(event: &SignEvent, refusal: Refusal, earlier: u32) {
    if earlier < REPORTED {
        let SignEvent { scope, fingerprint, namespace, .. } = event;
        tracing::warn!(%scope, ?fingerprint, ?namespace, %refusal, "an SSH key did not sign");
    } else if earlier == REPORTED {
        tracing::warn!(scope = %event.scope, "further refusals of an SSH key to sign are not reported");
    }
}

/// Removes the sockets of processes that were killed.
pub(crate) fn remove_old(state_dir: &Path) -> io::Result<()> {
    let parent = parent(state_dir);
    let all = match File::open(&parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    // Nobody is between making a folder and locking it.
    if all.try_lock().is_err() {
        return Ok(());
    }
    for entry in fs::read_dir(&parent)?.filter_map(Result::ok) {
        let folder = entry.path();
        if File::open(&folder).is_ok_and(|open| open.try_lock().is_ok()) {
            remove(&folder)?;
        }
    }
    Ok(())
}

fn parent(state_dir: &Path) -> PathBuf {
    state_dir.join("ssh-agents")
}

fn remove(folder: &Path) -> io::Result<()> {
    or_absent(fs::remove_file(folder.join(SshSigner::SOCKET)))?;
    or_absent(fs::remove_dir(folder))
}

#[cfg(test)]
mod tests {
    use sandbox_ssh::{KeyKind, Passphrase, Unlock};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    use super::*;

    async fn signer(state: &Path) -> SshSigner {
        let unlock = Unlock::Passphrase(Passphrase::new("p").unwrap());
        let scope = crate::ssh::scope(state, "s", unlock).unwrap();
        scope.init(KeyKind::Ed25519, None).await.unwrap();
        SshSigner::new(scope.keys().await.unwrap())
    }

    fn folders(state: &Path) -> usize {
        fs::read_dir(parent(state)).unwrap().count()
    }

    #[tokio::test]
    async fn an_agent_serves_from_a_folder_of_its_own_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        // Longer than the path of a socket may be.
        let state = dir.path().join("x".repeat(120));
        let signer = signer(&state).await;
        let (one, two) = (serve(&state, &signer).unwrap(), serve(&state, &signer).unwrap());
        assert_ne!(one.folder, two.folder);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let socket = one.folder.join(SshSigner::SOCKET);
        assert_eq!([mode(&parent(&state)), mode(&one.folder), mode(&socket)], [0o700, 0o755, 0o666]);
        let mount = one.mount();
        assert!(mount.read_only() && mount.container_path() == "/run/sandbox/ssh");

        let open = File::open(&one.folder).unwrap();
        let path = format!("/proc/self/fd/{}/agent.sock", open.as_raw_fd());
        let mut client = UnixStream::connect(&path).await.unwrap();
        client.write_all(&[0, 0, 0, 1, 11]).await.unwrap();
        assert!(client.read_u32().await.unwrap() > 1);
        assert_eq!(client.read_u8().await.unwrap(), 12);

        remove_old(&state).unwrap();
        assert_eq!(folders(&state), 2, "both live");
        drop(one);
        assert_eq!(folders(&state), 1);
        drop(client);
        drop(two);
        assert_eq!(folders(&state), 0);
    }

    #[tokio::test]
    async fn what_a_killed_process_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        remove_old(dir.path()).unwrap();
        let living = serve(dir.path(), &signer(dir.path()).await).unwrap();
        let left = parent(dir.path()).join("0123456789abcdef");
        fs::create_dir(&left).unwrap();
        drop(UnixListener::bind(left.join(SshSigner::SOCKET)).unwrap());
        let busy = File::open(parent(dir.path())).unwrap();
        busy.lock_shared().unwrap();
        remove_old(dir.path()).unwrap();
        assert_eq!(folders(dir.path()), 2, "another is making one");
        drop(busy);
        remove_old(dir.path()).unwrap();
        assert!(!left.exists() && living.folder.exists());
    }
}
