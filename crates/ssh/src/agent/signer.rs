//! Serves connections concurrently, and decides which signatures each gets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::data::{put_number, put_string};
use super::event::{Refusal, SignEvent};
use super::request::{Request, Sign, namespace};
use crate::SigningKeys;
use crate::key::SigningKey;

/// Clients served at a time; others wait until one of them has ended.
const MAX_CONNECTIONS: usize = 32;
/// The delay before the next client is accepted if the system lacks resources.
const PAUSE: Duration = Duration::from_millis(100);
/// The flags that request RSA with SHA-256 and SHA-512. Other keys ignore them.
const RSA_FLAGS: u32 = 2 | 4;
/// Characters of a namespace in a report.
const REPORTED: usize = 64;

const FAILURE: u8 = 5;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_RESPONSE: u8 = 14;

/// The signatures that may be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    namespaces: Vec<String>,
}

impl Allowed {
    /// Only signatures of these namespaces of `ssh-keygen -Y sign`.
    pub fn namespaces(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { namespaces: names.into_iter().map(Into::into).collect() }
    }
}

impl Default for Allowed {
    /// Git's commits and tags.
    fn default() -> Self {
        Self::namespaces(["git"])
    }
}

type Report = Box<dyn Fn(&SignEvent) + Send + Sync>;

/// The agent of one scope.
pub struct Signer {
    keys: Arc<SigningKeys>,
    allowed: Allowed,
    report: Report,
}

impl Signer {
    /// Signs `allowed` data with `keys`. `report` is called with each signature and refusal; it
    /// must not block.
    pub fn new(
        keys: impl Into<Arc<SigningKeys>>,
        allowed: Allowed,
        report: impl Fn(&SignEvent) + Send + Sync + 'static,
    ) -> Self {
        Self { keys: keys.into(), allowed, report: Box::new(report) }
    }

    /// Serves everyone who can connect, 32 at a time, with 30 seconds for each message. Never ends;
    /// when it is dropped, no more signatures are made.
    pub async fn serve(self, listener: UnixListener) {
        let signer = Arc::new(self);
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            // The semaphore is never closed.
            let slot = Arc::clone(&slots).acquire_owned().await;
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) => {
                    let signer = Arc::clone(&signer);
                    connections.spawn(async move {
                        signer.answer_all(stream).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "an SSH agent failed to accept a client");
                    // tidy: sleep: there is no event for a free descriptor
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Disconnects a client whose messages have no clear end; other refusals do not end the
    /// connection.
    async fn answer_all(&self, stream: UnixStream) {
        let mut connection = Connection::new(stream);
        loop {
            let message = match connection.read().await {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(refusal) => {
                    self.report(None, None, Err(refusal));
                    connection.write(&[FAILURE]).await;
                    return;
                }
            };
            if !connection.write(&self.answer(&message)).await {
                return;
            }
        }
    }

    fn answer(&self, message: &[u8]) -> Vec<u8> {
        match Request::parse(message) {
            Ok(Request::Identities) => self.identities(),
            Ok(Request::Sign(sign)) => self.sign(&sign).unwrap_or_else(|_| vec![FAILURE]),
            Err(refusal) => {
                self.report(None, None, Err(refusal));
                vec![FAILURE]
            }
        }
    }

    fn identities(&self) -> Vec<u8> {
        let mut answer = vec![IDENTITIES_ANSWER];
        put_number(&mut answer, self.keys.keys.len());
        for key in &self.keys.keys {
            put_string(&mut answer, &key.blob);
            put_string(&mut answer, key.info.comment.as_bytes());
        }
        answer
    }

    fn sign(&self, sign: &Sign<'_>) -> Result<Vec<u8>, Refusal> {
        let key = self.keys.keys.iter().find(|key| key.blob == sign.key);
        let namespace = namespace(sign.data);
        let signed = self.signature(key, namespace, sign);
        self.report(key, namespace, signed.as_ref().map(drop).map_err(|refusal| *refusal));
        signed
    }

    fn signature(
        &self,
        key: Option<&SigningKey>,
        namespace: Option<&str>,
        sign: &Sign<'_>,
    ) -> Result<Vec<u8>, Refusal> {
        let key = key.ok_or(Refusal::UnknownKey)?;
        let namespace = namespace.ok_or(Refusal::NotNamespaced)?;
        if !self.allowed.namespaces.iter().any(|allowed| allowed == namespace) {
            return Err(Refusal::Namespace);
        }
        if sign.flags & !RSA_FLAGS != 0 {
            return Err(Refusal::Flags(sign.flags));
        }
        let (algorithm, bytes) = key.sign(sign.data).ok_or(Refusal::Failed)?;
        let mut signature = Vec::new();
        put_string(&mut signature, algorithm.as_bytes());
        put_string(&mut signature, &bytes);
        let mut answer = vec![SIGN_RESPONSE];
        put_string(&mut answer, &signature);
        Ok(answer)
    }

    fn report(&self, key: Option<&SigningKey>, namespace: Option<&str>, outcome: Result<(), Refusal>) {
        (self.report)(&SignEvent {
            scope: self.keys.scope.clone(),
            fingerprint: key.map(|key| key.info.fingerprint.clone()),
            namespace: namespace
                .map(|name| name.chars().flat_map(char::escape_debug).take(REPORTED).collect()),
            outcome,
        });
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("keys", &self.keys)
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}
