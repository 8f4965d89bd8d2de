//! A pool of connections that stay open for the next request, bounded over all hosts together.
//!
//! An HTTP/1 connection is in the pool only while it is idle; an HTTP/2 connection stays in it and
//! is shared. Invariant: never more than `capacity` connections are idle, and none for longer than
//! [`IDLE`].

use std::collections::HashMap;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use lru::LruCache;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::connect::{Destination, Dialer, Protocols};
use super::error::{Failure, UpstreamError};
use super::raw_line::RawLine;
use super::sender::{Sender, Shareable};
use crate::upload::Upload;

/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(30);
/// How long an HTTP/1 connection may take to be ready again after a response.
const SETTLE: Duration = Duration::from_secs(1);
/// How long a client may take to read data from a shared connection before new requests avoid that
/// connection: unread data fills the connection's flow-control window, which then blocks every
/// response on it.
const SLOW: Duration = Duration::from_millis(100);
/// Maximum requests on one HTTP/2 connection; the upstream may allow fewer.
const SHARED: usize = 100;
/// Maximum hosts to remember as HTTP/1.1 only.
const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// The pool. It dials when it has no connection.
pub(crate) struct Pool {
    dialer: Dialer,
    capacity: usize,
    /// Held only briefly, never across an await.
    connections: Mutex<Connections>,
    /// Notified when a connection became idle.
    idled: Notify,
}

struct Connections {
    next_id: u64,
    /// Oldest first.
    idle: Vec<Idle>,
    shared: Vec<Shared>,
    /// One dial at a time to a host that may speak HTTP/2: the other requests can share the
    /// connection.
    dialing: HashMap<Destination, Arc<tokio::sync::Mutex<()>>>,
    http1_only: LruCache<Destination, ()>,
}

struct Idle {
    destination: Destination,
    sender: http1::SendRequest<Upload>,
    since: Instant,
}

struct Shared {
    id: u64,
    destination: Destination,
    sender: Shareable,
    /// One for each request that is in progress.
    readers: Vec<Arc<Reader>>,
    since: Instant,
}

/// One request's part in a shared connection.
struct Share {
    /// The id of the connection.
    id: u64,
    reader: Arc<Reader>,
}

/// Whether the client of one request reads its response.
#[derive(Debug, Default)]
struct Reader {
    /// Since when it has had a part of the response without asking for more; `None` while it waits
    /// for the upstream.
    delivered: Mutex<Option<Instant>>,
}

impl Reader {
    fn set_delivered(&self, at: Option<Instant>) {
        *self.delivered.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    fn is_slow(&self) -> bool {
        let delivered = *self.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        delivered.is_some_and(|at| at.elapsed() >= SLOW)
    }
}

/// A request for a turn to dial. The last one for a destination removes its entry, even if
/// abandoned.
struct Turn<'a> {
    pool: &'a Pool,
    destination: &'a Destination,
    mutex: Arc<tokio::sync::Mutex<()>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut connections = self.pool.lock();
        // One count is the map's, one is ours.
        if Arc::strong_count(&self.mutex) <= 2 {
            connections.dialing.remove(self.destination);
        }
    }
}

/// A connection for one request. Dropping it unfinished gives up the connection, or with HTTP/2 the
/// stream.
pub(crate) struct Lease {
    pool: Weak<Pool>,
    destination: Destination,
    sender: Option<Sender>,
    shared: Option<Share>,
    reused: bool,
}

impl Pool {
    /// An empty pool that keeps at most `capacity` idle connections.
    pub(crate) fn new(dialer: Dialer, capacity: usize) -> Arc<Self> {
        let connections = Connections {
            next_id: 0,
            idle: Vec::new(),
            shared: Vec::new(),
            dialing: HashMap::new(),
            http1_only: LruCache::new(REMEMBERED),
        };
        Arc::new(Self { dialer, capacity, connections: Mutex::new(connections), idled: Notify::new() })
    }

    /// A connection to `destination`: an existing one, else a new one.
    pub(crate) async fn lease(self: &Arc<Self>, destination: &Destination) -> Result<Lease, UpstreamError> {
        if let Some(lease) = self.take(destination) {
            return Ok(lease);
        }
        let Some(turn) = self.turn(destination) else {
            return self.lease_new(destination).await;
        };
        let waited = timeout(self.dialer.connect_timeout(), turn.mutex.lock()).await;
        let Ok(_mine) = waited else {
            return Err(UpstreamError::of_text(Failure::Timeout, "the connection was not made in time"));
        };
        if let Some(lease) = self.take(destination) {
            return Ok(lease);
        }
        self.lease_new(destination).await
    }

    /// A new connection to `destination`, even if one exists.
    pub(crate) async fn lease_new(
        self: &Arc<Self>,
        destination: &Destination,
    ) -> Result<Lease, UpstreamError> {
        let sender = self.dialer.dial(destination, Protocols::Any).await?;
        Ok(self.adopt(destination, sender))
    }

    /// A new HTTP/1.1 connection that is neither shared nor kept, for an upgrade, or for a request
    /// that begins with `line`.
    pub(crate) async fn lease_http1(
        self: &Arc<Self>,
        destination: &Destination,
        line: Option<RawLine>,
    ) -> Result<Lease, UpstreamError> {
        let sender = self.dialer.dial(destination, Protocols::Http1(line)).await?;
        Ok(Lease {
            pool: Weak::new(),
            destination: destination.clone(),
            sender: Some(sender),
            shared: None,
            reused: false,
        })
    }

    /// Closes connections that were idle for too long, until the future is dropped. Sleeps while
    /// nothing is idle.
    pub(crate) async fn expire(&self) {
        loop {
            match self.next_expiry() {
                Some(next) => sleep_until(next).await,
                None => self.idled.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease of an existing connection.
    fn take(self: &Arc<Self>, destination: &Destination) -> Option<Lease> {
        let (sender, shared) = self.lock().take(destination)?;
        Some(self.lend(destination, sender, shared, true))
    }

    /// A lease of a new connection.
    fn adopt(self: &Arc<Self>, destination: &Destination, sender: Sender) -> Lease {
        let shared = self.lock().adopt(destination, &sender);
        self.lend(destination, sender, shared, false)
    }

    fn lend(
        self: &Arc<Self>,
        destination: &Destination,
        sender: Sender,
        shared: Option<Share>,
        reused: bool,
    ) -> Lease {
        Lease {
            pool: Arc::downgrade(self),
            destination: destination.clone(),
            sender: Some(sender),
            shared,
            reused,
        }
    }

    /// The right to dial, if only one request at a time should; `None` if each may.
    fn turn<'a>(&'a self, destination: &'a Destination) -> Option<Turn<'a>> {
        let mut connections = self.lock();
        if !destination.tls || connections.http1_only.get(destination).is_some() {
            return None;
        }
        let mutex = Arc::clone(connections.dialing.entry(destination.clone()).or_default());
        Some(Turn { pool: self, destination, mutex })
    }

    fn keep(&self, destination: Destination, sender: http1::SendRequest<Upload>) {
        let dropped = {
            let mut connections = self.lock();
            connections.idle.push(Idle { destination, sender, since: Instant::now() });
            connections.evict(self.capacity)
        };
        drop(dropped);
        self.idled.notify_one();
    }

    fn release(&self, share: &Share) {
        let dropped = {
            let mut connections = self.lock();
            if let Some(shared) = connections.shared.iter_mut().find(|shared| shared.id == share.id) {
                shared.readers.retain(|other| !Arc::ptr_eq(other, &share.reader));
                shared.since = Instant::now();
            }
            connections.evict(self.capacity)
        };
        drop(dropped);
        self.idled.notify_one();
    }

    /// Closes the connections that are due, and returns the time at which the oldest idle one is to
    /// be closed.
    fn next_expiry(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut connections = self.lock();
        let due = |since: Instant| since + IDLE <= now;
        connections.idle.retain(|idle| !due(idle.since) && !idle.sender.is_closed());
        connections
            .shared
            .retain(|shared| shared.is_used() || (!due(shared.since) && !shared.sender.is_closed()));
        connections.idle_since().map(|since| since + IDLE)
    }
}

impl Shared {
    fn is_used(&self) -> bool {
        !self.readers.is_empty()
    }
}

impl Connections {
    fn take(&mut self, destination: &Destination) -> Option<(Sender, Option<Share>)> {
        self.shared.retain(|shared| shared.is_used() || !shared.sender.is_closed());
        let free = |shared: &&mut Shared| {
            let room = shared.sender.room().min(SHARED);
            shared.destination == *destination
                && !shared.sender.is_closed()
                && shared.readers.len() < room
                && !shared.readers.iter().any(|reader| reader.is_slow())
        };
        if let Some(shared) = self.shared.iter_mut().find(free) {
            let reader = Arc::<Reader>::default();
            shared.readers.push(Arc::clone(&reader));
            return Some((Sender::Http2(shared.sender.clone()), Some(Share { id: shared.id, reader })));
        }
        // The one that was used last is the least likely to have been closed by the other side.
        while let Some(at) = self.idle.iter().rposition(|idle| idle.destination == *destination) {
            let idle = self.idle.remove(at);
            if idle.sender.is_ready() {
                return Some((Sender::Http1(idle.sender), None));
            }
        }
        None
    }

    fn adopt(&mut self, destination: &Destination, sender: &Sender) -> Option<Share> {
        let Sender::Http2(sender) = sender else {
            self.http1_only.put(destination.clone(), ());
            return None;
        };
        self.next_id += 1;
        let id = self.next_id;
        let (destination, sender) = (destination.clone(), sender.clone());
        let reader = Arc::<Reader>::default();
        let readers = vec![Arc::clone(&reader)];
        self.shared.push(Shared { id, destination, sender, readers, since: Instant::now() });
        Some(Share { id, reader })
    }

    /// Removes the connections that exceed `capacity`, the longest idle first. The caller drops
    /// them after releasing the lock.
    fn evict(&mut self, capacity: usize) -> (Vec<Idle>, Vec<Shared>) {
        let mut evicted = (Vec::new(), Vec::new());
        while self.idle.len() + self.shared.iter().filter(|shared| !shared.is_used()).count() > capacity {
            let oldest_idle = self.idle.first().map(|idle| idle.since);
            let unused = self.shared.iter().enumerate().filter(|(_, shared)| !shared.is_used());
            match (
                oldest_idle,
                unused.min_by_key(|(_, shared)| shared.since).map(|(at, shared)| (at, shared.since)),
            ) {
                (Some(idle), Some((_, shared))) if idle <= shared => evicted.0.push(self.idle.remove(0)),
                (_, Some((at, _))) => evicted.1.push(self.shared.remove(at)),
                (Some(_), None) => evicted.0.push(self.idle.remove(0)),
                (None, None) => break,
            }
        }
        evicted
    }

    fn idle_since(&self) -> Option<Instant> {
        let shared = self.shared.iter().filter(|shared| !shared.is_used()).map(|shared| shared.since);
        self.idle.iter().map(|idle| idle.since).chain(shared).min()
    }
}

impl Lease {
    /// Whether the connection served another request before, so that it may have been closed
    /// meanwhile.
    pub(crate) fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether it speaks HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.sender.as_ref().is_some_and(Sender::is_http2)
    }

    /// Sends the one request. The error holds the request if none of it was sent.
    pub(crate) async fn send(&mut self, request: Request<Upload>) -> Result<Response<Incoming>, SendError> {
        let Some(sender) = &mut self.sender else {
            return Err(SendError { request: Some(Box::new(request)), error: None });
        };
        sender.send(request).await.map_err(SendError::from)
    }

    /// Records that the client has a part of the response, and has not asked for more yet.
    pub(crate) fn delivered(&self) {
        if let Some(Share { reader, .. }) = &self.shared {
            reader.set_delivered(Some(Instant::now()));
        }
    }

    /// Records that the client waits for more of the response.
    pub(crate) fn waiting(&self) {
        if let Some(Share { reader, .. }) = &self.shared {
            reader.set_delivered(None);
        }
    }

    /// The response was read to its end: the connection may be used again.
    pub(crate) fn finish(mut self) {
        let Some(Sender::Http1(mut sender)) = self.sender.take() else {
            return;
        };
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let destination =
            mem::replace(&mut self.destination, Destination { host: "".into(), tls: false, service: None });
        if sender.is_ready() {
            pool.keep(destination, sender);
            return;
        }
        drop(pool);
        let pool = self.pool.clone();
        tokio::spawn(async move {
            let ready = timeout(SETTLE, sender.ready()).await;
            if let (Ok(Ok(())), Some(pool)) = (ready, pool.upgrade()) {
                pool.keep(destination, sender);
            }
        });
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (Some(share), Some(pool)) = (&self.shared, self.pool.upgrade()) {
            pool.release(share);
        }
    }
}

/// A request that was not answered.
pub(crate) struct SendError {
    /// The request, if none of it was sent.
    pub(crate) request: Option<Box<Request<Upload>>>,
    /// The error, if there is one.
    pub(crate) error: Option<hyper::Error>,
}

impl From<TrySendError<Request<Upload>>> for SendError {
    fn from(mut failed: TrySendError<Request<Upload>>) -> Self {
        Self { request: failed.take_message().map(Box::new), error: Some(failed.into_error()) }
    }
}
