//! What is known of one client, for all that its connection asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allowlist::HostName;
use sandbox_proxy_protocol::{Event, Limits, Scheme};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::Span;

use super::activity::{Active, Activity};
use super::framing::{Framing, Note};
use super::shared::Shared;
use super::upgrade::Tunnel;
use crate::credential::Vault;
use crate::gate::Gate;
use crate::record::{LogBudget, Recorder};
use crate::upstream::Pool;

/// What is known of one client connection.
pub(crate) struct Client {
    shared: Arc<Shared>,
    scheme: Scheme,
    server_name: Option<HostName>,
    framing: Arc<Framing>,
    /// Heads that the service has seen. Over HTTP/1 the same count as the reader's, since requests are served in order.
    heads: AtomicU64,
    activity: Arc<Activity>,
    /// What the connection is to become, once the 101 is written.
    tunnel: Mutex<Option<Tunnel>>,
    /// The span of the connection: requests of HTTP/2 are tasks of their own.
    span: Span,
}

impl Client {
    /// A client that connected by `scheme`, asking for `server_name` if that is TLS.
    pub(crate) fn new(shared: Arc<Shared>, scheme: Scheme, server_name: Option<HostName>) -> Self {
        Self {
            shared,
            scheme,
            server_name,
            framing: Arc::default(),
            heads: AtomicU64::new(0),
            activity: Arc::new(Activity::new()),
            tunnel: Mutex::new(None),
            span: Span::current(),
        }
    }

    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    pub(super) fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub(super) fn server_name(&self) -> Option<&HostName> {
        self.server_name.as_ref()
    }

    pub(super) fn framing(&self) -> &Framing {
        &self.framing
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.shared.pool
    }

    pub(super) fn vault(&self) -> &Vault {
        &self.shared.context.vault
    }

    /// Room for bodies that wait to be signed, in bytes.
    pub(super) fn room(&self) -> &Arc<Semaphore> {
        &self.shared.signing_room
    }

    pub(super) fn requests(&self) -> &Arc<Semaphore> {
        &self.shared.requests
    }

    /// What is left of the network log for permitted requests.
    pub(super) fn log(&self) -> &LogBudget {
        &self.shared.log
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.shared.context.recorder
    }

    pub(super) fn count_refused_request(&self) {
        self.shared.refused_requests.add();
    }

    /// Bytes of a request head at most.
    pub(super) fn max_head_bytes(&self) -> usize {
        self.limits().head_bytes
    }

    /// Headers of a request at most.
    pub(super) fn max_headers(&self) -> usize {
        self.limits().headers
    }

    /// Warns the operator, if the queue has room.
    pub(super) fn warn(&self, text: String) {
        if self.recorder().try_record(Event::Warning { text }).is_err() {
            tracing::warn!("a warning could not be recorded");
        }
    }

    /// How long an upstream may take to begin its answer.
    pub(super) fn response_timeout(&self) -> Option<Duration> {
        self.limits().response_timeout_ms.map(Duration::from_millis)
    }

    /// The next head has come to the service; what hyper could not be shown of it.
    pub(super) fn next_head(&self) -> Option<Note> {
        let head = self.heads.fetch_add(1, Ordering::Relaxed) + 1;
        self.framing.take_note(head)
    }

    /// A request begins; it ends when the guard is dropped.
    pub(super) fn begin(&self) -> Active {
        Active::new(Arc::clone(&self.activity))
    }

    /// Keeps what the connection is to become.
    pub(super) fn hold(&self, tunnel: Tunnel) {
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.shared.context.limits
    }

    /// What the connection is to become, if anything.
    pub(super) fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How many requests the service has seen.
    pub(super) fn heads(&self) -> u64 {
        self.heads.load(Ordering::Relaxed)
    }

    /// Since when no request has been in progress.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.activity.idle_since()
    }

    /// A permit for an HTTP/2 connection with many streams, while there is one.
    pub(super) fn wide(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.shared.wide_connections).try_acquire_owned().ok()
    }

    /// What the reader and the service share.
    pub(super) fn shared_framing(&self) -> Arc<Framing> {
        Arc::clone(&self.framing)
    }
}
