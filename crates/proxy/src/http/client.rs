//! What is known of one client, for all that its connection asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allowlist::HostName;
use sandbox_proxy_protocol::{Event, HostService, Limits, Scheme};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::Span;

use super::activity::{Active, Activity};
use super::framing::{Framing, Note};
use super::shared::Shared;
use super::upgrade::Tunnel;
use crate::policy::Blocked;

/// What is known of one client connection.
pub(crate) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) scheme: Scheme,
    pub(super) server_name: Option<HostName>,
    /// The port that it came to.
    pub(super) port: u16,
    pub(super) framing: Arc<Framing>,
    /// Heads that the service has seen. Over HTTP/1 the same count as the reader's, since requests
    /// are served in order.
    heads: AtomicU64,
    activity: Arc<Activity>,
    /// What the connection is to become, once the 101 is written.
    tunnel: Mutex<Option<Tunnel>>,
    /// The span of the connection: requests of HTTP/2 are tasks of their own.
    pub(super) span: Span,
}

impl Client {
    /// A client that connected to `port` by `scheme`, asking for `server_name` if that is TLS.
    pub(crate) fn new(shared: Arc<Shared>, scheme: Scheme, port: u16, server_name: Option<HostName>) -> Self {
        Self {
            shared,
            scheme,
            server_name,
            port,
            framing: Arc::default(),
            heads: AtomicU64::new(0),
            activity: Arc::new(Activity::new()),
            tunnel: Mutex::new(None),
            span: Span::current(),
        }
    }

    /// Warns the operator, if the queue has room.
    pub(super) fn warn(&self, text: String) {
        if self.shared.context.recorder.try_record(Event::Warning { text }).is_err() {
            tracing::warn!("a warning could not be recorded");
        }
    }

    /// The service of the host that a request for `host` goes to, if it goes to one.
    ///
    /// # Errors
    ///
    /// As [`Services::at`](crate::services::Services::at).
    pub(super) fn service(&self, host: &HostName) -> Result<Option<&Arc<HostService>>, Blocked> {
        self.shared.context.services.at(host, self.port)
    }

    /// How long an upstream may take to begin its answer.
    pub(super) fn response_timeout(&self) -> Option<Duration> {
        self.limits().response_timeout_ms.map(Duration::from_millis)
    }

    /// How many requests the service has seen.
    pub(super) fn heads(&self) -> u64 {
        self.heads.load(Ordering::Relaxed)
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

    /// Since when no request has been in progress.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.activity.idle_since()
    }

    /// A permit for an HTTP/2 connection with many streams, while there is one.
    pub(super) fn wide(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.shared.wide_connections).try_acquire_owned().ok()
    }
}
