//! The listeners for HTTP, TLS and services: which connections are accepted, for how long, and how
//! they end.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use lru::LruCache;
use sandbox_proxy_protocol::{Event, HostService, Scheme};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument as _;

use crate::accounting::LimitCounter;
use crate::context::Context;
use crate::http::{self, Client, ConnectionEnd, Shared};
use crate::stream::ServiceStream;
use crate::tls::{Accepted, Handshake, Refusal, received_alert, server_config};

/// How long to wait if the operating system has no descriptor for a new connection.
const EXHAUSTED: Duration = Duration::from_millis(50);
/// The number of names for which an explanation of distrust is remembered.
const EXPLAINED: std::num::NonZeroUsize = std::num::NonZeroUsize::MIN.saturating_add(63);

/// The sockets that clients connect to.
pub(crate) struct Listeners(Vec<(TcpListener, Entrance)>);

/// The protocol of a socket.
#[derive(Debug, Clone)]
pub(crate) enum Entrance {
    /// Plain HTTP, on this port.
    Http(u16),
    /// TLS.
    Https,
    /// The service's own protocol.
    Service(Arc<HostService>),
}

impl Listeners {
    pub(crate) fn new(listeners: Vec<(TcpListener, Entrance)>) -> Self {
        Self(listeners)
    }

    /// The next client. No socket starves behind the others: the one after the last client's socket
    /// is polled first.
    async fn accept(&mut self) -> (io::Result<(TcpStream, SocketAddr)>, Entrance) {
        let (at, accepted, entrance) = poll_fn(|cx| {
            let mut sockets = self.0.iter().enumerate();
            let accepted = sockets.find_map(|(at, (listener, entrance))| match listener.poll_accept(cx) {
                Poll::Ready(accepted) => Some((at, accepted, entrance.clone())),
                Poll::Pending => None,
            });
            accepted.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        self.0.rotate_left(at + 1);
        (accepted, entrance)
    }
}

struct Server {
    shared: Arc<Shared>,
    refused_connections: LimitCounter,
    late_clients: LimitCounter,
    /// Names for which clients did not trust our certificate; each is explained only once.
    explained: Mutex<LruCache<String, ()>>,
}

/// Serves until `shutdown` ends; then gives requests in progress
/// [`sandbox_proxy_protocol::Limits::drain_ms`] to end and cuts off the rest.
pub(crate) async fn serve(
    context: Arc<Context>,
    mut listeners: Listeners,
    shutdown: impl Future<Output = ()> + Send,
) {
    let tls = match server_config(context.authority.clone()) {
        Ok(tls) => tls,
        Err(error) => {
            // A build without TLS cannot serve; its owner sees that the listener ended.
            tracing::error!(%error, "failed to set up TLS");
            return;
        }
    };
    let server = Arc::new(Server::new(context));
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let places = Arc::new(Semaphore::new(server.shared.context.limits.connections));
    let mut shutdown = std::pin::pin!(shutdown);
    let mut housekeeping = std::pin::pin!(server.housekeeping());
    loop {
        let (accepted, entrance) = tokio::select! {
            () = &mut shutdown => break,
            () = &mut housekeeping => break,
            Some(_) = connections.join_next() => continue,
            accepted = listeners.accept() => accepted,
        };
        let Some((stream, address, place)) = server.admit(accepted, &places).await else {
            continue;
        };
        let (server, tls, stopped) = (Arc::clone(&server), Arc::clone(&tls), stopped.clone());
        let connection = async move {
            match entrance {
                Entrance::Http(port) => server.plain(stream, port, stopped).await,
                Entrance::Https => server.encrypted(stream, tls, stopped).await,
                Entrance::Service(service) => {
                    let Shared { context, gate, log, .. } = &*server.shared;
                    ServiceStream::serve(context, gate, log, &service, stream, stopped).await;
                }
            }
            drop(place);
        };
        connections.spawn(connection.instrument(tracing::info_span!("connection", client = %address)));
    }
    drop(listeners);
    stop.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(Duration::from_millis(server.shared.context.limits.drain_ms), drained).await.is_err() {
        connections.shutdown().await;
    }
}

impl Drop for Server {
    /// Records the counts that are not recorded yet, however the server ends.
    fn drop(&mut self) {
        let Shared { context, refused_requests, refused_questions, .. } = &*self.shared;
        for counter in [refused_requests, refused_questions, &self.refused_connections, &self.late_clients] {
            counter.flush(&context.recorder);
        }
    }
}

impl Server {
    fn new(context: Arc<Context>) -> Self {
        Self {
            shared: Arc::new(Shared::new(context)),
            refused_connections: LimitCounter::new("connections"),
            late_clients: LimitCounter::new("head_timeout_ms"),
            explained: Mutex::new(LruCache::new(EXPLAINED)),
        }
    }

    /// Background work next to the connections; it never ends.
    async fn housekeeping(&self) {
        let recorder = &self.shared.context.recorder;
        tokio::select! {
            () = self.shared.pool.expire() => {}
            _ = self.shared.refused_requests.report(recorder) => {}
            _ = self.shared.refused_questions.report(recorder) => {}
            _ = self.refused_connections.report(recorder) => {}
            _ = self.late_clients.report(recorder) => {}
        }
    }

    /// The connection with its place; `None` if accepting it failed or there is no place.
    async fn admit(
        &self,
        accepted: io::Result<(TcpStream, SocketAddr)>,
        places: &Arc<Semaphore>,
    ) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                // tidy: sleep: there is no event for a descriptor that becomes free.
                tokio::time::sleep(EXHAUSTED).await;
                return None;
            }
        };
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            self.refused_connections.add();
            return None;
        };
        // Responses must not wait until there is more to send.
        let _ = stream.set_nodelay(true);
        Some((stream, address, place))
    }

    async fn plain(self: Arc<Self>, stream: TcpStream, port: u16, stopped: watch::Receiver<bool>) {
        let client = Arc::new(Client::new(Arc::clone(&self.shared), Scheme::Http, port, None));
        if let ConnectionEnd::Silent = http::serve(client, stream, false, stopped).await {
            self.late_clients.add();
        }
    }

    async fn encrypted(
        self: Arc<Self>,
        stream: TcpStream,
        tls: Arc<rustls::ServerConfig>,
        stopped: watch::Receiver<bool>,
    ) {
        let head_timeout = Duration::from_millis(self.shared.context.limits.head_timeout_ms);
        let accepted = match timeout(head_timeout, Handshake::with(stream, tls)).await {
            Ok(Handshake::Accepted(accepted)) => accepted,
            Ok(Handshake::Refused(refusal)) => return self.record(refusal),
            Ok(Handshake::Gone) => return,
            Err(_elapsed) => return self.late_clients.add(),
        };
        let Accepted { stream, server_name, http2 } = *accepted;
        let port = Scheme::Https.default_port();
        let client =
            Arc::new(Client::new(Arc::clone(&self.shared), Scheme::Https, port, Some(server_name.clone())));
        match http::serve(client, stream, http2, stopped).await {
            ConnectionEnd::Closed => {}
            ConnectionEnd::Silent => self.late_clients.add(),
            ConnectionEnd::Broken(error) => {
                tracing::debug!(%error, "a client connection ended");
                let late = received_alert(&error).and_then(|alert| Refusal::late(&server_name, alert));
                if let Some(refusal) = late {
                    self.record(refusal);
                }
            }
        }
    }

    fn record(&self, refusal: Refusal) {
        let Refusal { server_name, alert, reason, distrust } = refusal;
        let name = server_name.clone().unwrap_or_else(|| "-".to_owned());
        let mut events = Vec::new();
        if distrust
            && self.explained.lock().unwrap_or_else(PoisonError::into_inner).put(name.clone(), ()).is_none()
        {
            let text = format!(
                "a client in the task does not trust the sandbox's certificate authority, so it cannot reach {name} ({alert}): \
                 point its trust store at the file named by SSL_CERT_FILE"
            );
            events.push(Event::Warning { text });
        }
        events.insert(0, Event::TlsRefused { server_name, alert, reason });
        for event in events {
            if self.shared.context.recorder.try_record(event).is_err() {
                tracing::warn!("failed to record a refused handshake");
            }
        }
    }
}
