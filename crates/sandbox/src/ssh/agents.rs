//! The SSH agents of executions: each listens on a socket that only its container is given.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sandbox_ssh::{Refusal, SignEvent, Signer, SshError};
use tokio::task::JoinHandle;

use crate::socket_folder::SocketFolder;
use crate::spec::{Mount, SshSigner};

/// Refusals of one execution that are events of `tracing`.
const REPORTED: u32 = 100;

/// An agent that serves until this is dropped.
#[derive(Debug)]
pub(crate) struct RunningAgent {
    folder: SocketFolder,
    task: JoinHandle<()>,
}

impl RunningAgent {
    /// What a container gets of it.
    pub(crate) fn mount(&self) -> Mount {
        self.folder.mount(SshSigner::FOLDER)
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Begins to serve what `signer` says.
pub(crate) fn serve(state_dir: &Path, signer: &SshSigner) -> Result<RunningAgent, SshError> {
    let failed = |source: io::Error| SshError::Files {
        operation: "make the socket of an agent in",
        path: state_dir.to_owned(),
        source,
    };
    let folder = SocketFolder::create(state_dir).map_err(failed)?;
    let listener = folder.listen(SshSigner::SOCKET).map_err(failed)?;
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

/// A task could fill the log with them.
fn log_refusal(event: &SignEvent, refusal: Refusal, earlier: u32) {
    if earlier < REPORTED {
        let SignEvent { scope, fingerprint, namespace, .. } = event;
        tracing::warn!(%scope, ?fingerprint, ?namespace, %refusal, "an SSH key did not sign");
    } else if earlier == REPORTED {
        tracing::warn!(scope = %event.scope, "further refusals of an SSH key to sign are not reported");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sandbox_ssh::{KeyKind, Passphrase, Unlock};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn an_agent_serves_from_a_folder_of_its_own_until_it_is_dropped() {
        let state = tempfile::tempdir().unwrap();
        let unlock = Unlock::Passphrase(Passphrase::new("p").unwrap());
        let scope = crate::ssh::scope(state.path(), "s", unlock).unwrap();
        scope.init(KeyKind::Ed25519, None).await.unwrap();
        let signer = SshSigner::new(scope.keys().await.unwrap());
        let agents = [(); 2].map(|()| serve(state.path(), &signer).unwrap());
        let mounts = agents.each_ref().map(RunningAgent::mount);
        assert_ne!(mounts[0].host_path(), mounts[1].host_path());
        assert!(mounts[0].read_only() && mounts[0].container_path() == "/run/sandbox/ssh");
        let mut client = UnixStream::connect(mounts[0].host_path().join(SshSigner::SOCKET)).await.unwrap();
        client.write_all(&[0, 0, 0, 1, 11]).await.unwrap();
        assert!(client.read_u32().await.unwrap() > 1);
        assert_eq!(client.read_u8().await.unwrap(), 12);
        let [one, two] = agents;
        drop(one);
        assert_eq!(mounts.each_ref().map(|mount| fs::exists(mount.host_path()).unwrap()), [false, true]);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        drop(two);
        assert!(!fs::exists(mounts[1].host_path()).unwrap());
    }
}
