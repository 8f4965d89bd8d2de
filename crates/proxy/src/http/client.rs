//! The state of one client connection, shared by all of its requests.

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

/// The state of one client connection.
pub(crate) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) scheme: Scheme,
    pub(super) server_name: Option<HostName>,
    /// The port that it connected to.
    pub(super) port: u16,
    pub(super) framing: Arc<Framing>,
    /// The number of heads that the service has seen. Over HTTP/1 it equals the reader's count,
    /// since requests are served in order.
    heads: AtomicU64,
    activity: Arc<Activity>,
    /// The tunnel that the connection becomes once the 101 is written.
    tunnel: Mutex<Option<Tunnel>>,
    /// The span of the connection: each HTTP/2 request runs in its own task.
    pub(super) span: Span,
}

impl Client {
    /// A client that connected to `port` with `scheme` and, over TLS, asked for `server_name`.
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

    /// Warns the operator if the queue has room.
    pub(super) fn warn(&self, text: String) {
        if self.shared.context.recorder.try_record(Event::Warning { text }).is_err() {
            tracing::warn!("failed to record a warning");
        }
    }

    /// The host service that a request for `host` goes to, if any.
    ///
    /// # Errors
    ///
    /// As [`Services::at`](crate::services::Services::at).
    pub(super) fn service(&self, host: &HostName) -> Result<Option<&Arc<HostService>>, Blocked> {
        self.shared.context.services.at(host, self.port)
    }

    /// How long an upstream may take to begin its response.
    pub(super) fn response_timeout(&self) -> Option<Duration> {
        self.limits().response_timeout_ms.map(Duration::from_millis)
    }

    /// The number of heads that the service has seen.
    pub(super) fn heads(&self) -> u64 {
        self.heads.load(Ordering::Relaxed)
    }

    /// Counts a head that reached the service. Returns the note on it, if hyper got something else.
    pub(super) fn next_head(&self) -> Option<Note> {
        let head = self.heads.fetch_add(1, Ordering::Relaxed) + 1;
        self.framing.take_note(head)
    }

    /// Marks a request as in progress until the guard is dropped.
    pub(super) fn begin(&self) -> Active {
        Active::new(Arc::clone(&self.activity))
    }

    /// Stores the tunnel that the connection becomes.
    pub(super) fn hold(&self, tunnel: Tunnel) {
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.shared.context.limits
    }

    /// Takes the tunnel that the connection becomes, if any.
    pub(super) fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Since when no request has been in progress; `None` while one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.activity.idle_since()
    }

    /// A permit for an HTTP/2 connection with many streams, if one is free.
    pub(super) fn wide(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.shared.wide_connections).try_acquire_owned().ok()
    }
}
