//! The SSH agent of an execution.

use std::fmt;
use std::sync::Arc;

use sandbox_ssh::{Allowed, SignEvent, SigningKeys};

type EventCallback = Arc<dyn Fn(&SignEvent) + Send + Sync>;

/// Signs git commits and tags of an execution, with the keys of one scope. The keys stay in this
/// process.
///
/// In the container `SSH_AUTH_SOCK` names the agent's socket, and `GIT_CONFIG_*` variables make git
/// sign with the first key; git settings in [`ContainerEnv`](crate::ContainerEnv) override them.
/// Signing needs git 2.34 and `ssh-keygen` in the image. With gVisor, where no container can
/// connect to a socket of the host, it is an error.
#[derive(Clone)]
pub struct SshSigner {
    pub(crate) keys: Arc<SigningKeys>,
    pub(crate) allowed: Allowed,
    pub(crate) signs_all: bool,
    pub(crate) callback: Option<EventCallback>,
}

impl SshSigner {
    /// The variable in which programs look for the socket.
    pub(crate) const VARIABLE: &'static str = "SSH_AUTH_SOCK";
    /// Why gVisor is refused. No engine reports whether its option `--host-uds=open` is set.
    pub(crate) const NOT_IN_GVISOR: &'static str = "gVisor lets no container connect to a socket of the \
                                                    host; use another runtime, or leave the signer out";
    /// The folder of the socket in the container.
    pub(crate) const FOLDER: &'static str = "/run/sandbox/ssh";
    /// The socket in that folder.
    pub(crate) const SOCKET: &'static str = "agent.sock";

    /// The path of the socket in the container.
    pub(crate) fn socket() -> String {
        format!("{}/{}", Self::FOLDER, Self::SOCKET)
    }

    /// Signs with `keys`: see [`SshScope::keys`](sandbox_ssh::SshScope::keys).
    #[must_use]
    pub fn new(keys: impl Into<Arc<SigningKeys>>) -> Self {
        Self { keys: keys.into(), allowed: Allowed::default(), signs_all: false, callback: None }
    }

    /// Sets the data that may be signed. Default: git commits and tags.
    #[must_use]
    pub fn allowed(self, allowed: Allowed) -> Self {
        Self { allowed, ..self }
    }

    /// Makes git sign every commit and tag. Default: only with `-S` and `-s`.
    #[must_use]
    pub fn sign_all(self) -> Self {
        Self { signs_all: true, ..self }
    }

    /// Calls `callback` with each signature and refusal. It must not block. Signatures and the
    /// first hundred refusals of an execution are always `tracing` events too.
    #[must_use]
    pub fn on_event(self, callback: impl Fn(&SignEvent) + Send + Sync + 'static) -> Self {
        Self { callback: Some(Arc::new(callback)), ..self }
    }

    /// Git settings, as keys and values.
    pub(crate) fn git_settings(&self) -> Vec<(String, String)> {
        let key = self.keys.infos().next().map(|key| format!("key::{}", key.public_line));
        let all = if self.signs_all { ["commit.gpgsign", "tag.gpgsign"].as_slice() } else { &[] };
        let format = ("gpg.format", "ssh".to_owned());
        let settings = [format].into_iter().chain(key.map(|key| ("user.signingkey", key)));
        let all = all.iter().map(|name| (*name, "true".to_owned()));
        settings.chain(all).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl fmt::Debug for SshSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SshSigner")
            .field("keys", &self.keys)
            .field("allowed", &self.allowed)
            .field("signs_all", &self.signs_all)
            .finish_non_exhaustive()
    }
}
