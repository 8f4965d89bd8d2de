//! SSH agents: one for each execution, on a socket for its container only.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sandbox_ssh::{Refusal, SignEvent, Signer, SshError};
use tokio::task::JoinHandle;

use crate::socket_folder::SocketFolder;
use crate::spec::{Mount, SshSigner};

/// The refusals of one execution that are `tracing` events.
const REPORTED: u32 = 100;

/// An agent that serves until this is dropped.
#[derive(Debug)]
pub(crate) struct RunningAgent {
    folder: SocketFolder,
    task: JoinHandle<()>,
}

impl RunningAgent {
    /// The mount of its socket folder in the container.
    pub(crate) fn mount(&self) -> Mount {
        self.folder.mount(SshSigner::FOLDER)
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts the agent of `signer`.
pub(crate) fn serve(state_dir: &Path, signer: &SshSigner) -> Result<RunningAgent, SshError> {
    let made = SocketFolder::create(state_dir)
        .and_then(|folder| folder.listen(SshSigner::SOCKET).map(|listener| (folder, listener)));
    let (folder, listener) = made.map_err(|source| SshError::Files {
        operation: "create the socket of an agent in",
        path: state_dir.to_owned(),
        source,
    })?;
    let signer = Signer::new(Arc::clone(&signer.keys), signer.allowed.clone(), reporter(signer));
    Ok(RunningAgent { folder, task: tokio::spawn(signer.serve(listener)) })
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

/// Bounded, because a task could fill the log with them.
fn log_refusal(event: &SignEvent, refusal: Refusal, earlier: u32) {
    if earlier < REPORTED {
        let SignEvent { scope, fingerprint, namespace, .. } = event;
        tracing::warn!(%scope, ?fingerprint, ?namespace, %refusal, "an SSH key did not sign");
    } else if earlier == REPORTED {
        tracing::warn!(scope = %event.scope, "further refusals of an SSH key to sign are not logged");
    }
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

    #[tokio::test]
    async fn agent_serves_until_it_is_dropped() {
        let state = tempfile::tempdir().unwrap();
        let signer = signer(state.path()).await;
        let (one, two) = (serve(state.path(), &signer).unwrap(), serve(state.path(), &signer).unwrap());
        let mount = one.mount();
        assert_ne!(mount.host_path(), two.mount().host_path());
        assert!(mount.read_only() && mount.container_path() == "/run/sandbox/ssh");

        let mut client = UnixStream::connect(mount.host_path().join(SshSigner::SOCKET)).await.unwrap();
        client.write_all(&[0, 0, 0, 1, 11]).await.unwrap();
        assert!(client.read_u32().await.unwrap() > 1);
        assert_eq!(client.read_u8().await.unwrap(), 12);
        drop(one);
        assert!(!mount.host_path().exists() && two.mount().host_path().exists());
    }
}
