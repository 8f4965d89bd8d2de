//! The proxy's own stub resolver: a cache, and one lookup at a time for each name.
//!
//! It is the only way by which a name leaves the proxy, and it is used only after the gate has
//! permitted a request. The operating system's resolver is never used: a static binary has none.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lookup::{ResolveError, look_up};
use super::message::Name;

/// The maximum number of cached names; the least recently used is dropped first.
const CACHED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);
/// The shortest time that an answer is cached, whatever its server specifies: a page may request
/// its host a hundred times.
const TTL_MIN: Duration = Duration::from_secs(1);
/// The longest time that an answer is cached.
const TTL_MAX: Duration = Duration::from_mins(5);

type Outcome = Result<Arc<[IpAddr]>, ResolveError>;

/// Turns names into addresses.
#[derive(Debug)]
pub(crate) struct Resolver {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    /// Held for a few instructions, never over an await. Invariant: a name is in `in_flight`
    /// exactly while a lookup of it runs.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    cache: LruCache<Name, Cached>,
    in_flight: HashMap<Name, watch::Receiver<Option<Outcome>>>,
}

#[derive(Debug)]
struct Cached {
    addresses: Arc<[IpAddr]>,
    until: Instant,
}

impl Resolver {
    /// A resolver that asks `server`.
    pub(crate) fn new(server: SocketAddr) -> Self {
        let state = State { cache: LruCache::new(CACHED), in_flight: HashMap::new() };
        Self { shared: Arc::new(Shared { server, state: Mutex::new(state) }) }
    }

    /// The addresses of `host`, IPv4 first; never empty. A canonical IPv4 address resolves to
    /// itself. Takes at most 4 s.
    pub(crate) async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        if let Ok(literal) = host.parse::<Ipv4Addr>() {
            return Ok(vec![literal.into()]);
        }
        let name = Name::from_host(host).ok_or(ResolveError::NotFound)?;
        let mut outcome = match self.shared.enter(name) {
            Entered::Known(addresses) => return Ok(addresses.to_vec()),
            Entered::Running(outcome) => outcome,
        };
        let outcome = outcome.wait_for(Option::is_some).await.map_err(|_| ResolveError::Abandoned)?.clone();
        Ok(outcome.ok_or(ResolveError::Abandoned)??.to_vec())
    }
}

/// The addresses, or the lookup to wait for.
enum Entered {
    Known(Arc<[IpAddr]>),
    Running(watch::Receiver<Option<Outcome>>),
}

impl Shared {
    /// Returns the addresses from the cache, or the lookup that is running, or a new one. The
    /// lookup is a separate task: it continues for the others when the caller that began it goes
    /// away.
    fn enter(self: &Arc<Self>, name: Name) -> Entered {
        let mut state = self.lock();
        if let Some(cached) = state.cache.get(&name) {
            if Instant::now() < cached.until {
                return Entered::Known(cached.addresses.clone());
            }
            state.cache.pop(&name);
        }
        if let Some(outcome) = state.in_flight.get(&name) {
            return Entered::Running(outcome.clone());
        }
        let (sender, receiver) = watch::channel(None);
        state.in_flight.insert(name.clone(), receiver.clone());
        tokio::spawn(Arc::clone(self).run(name, sender));
        Entered::Running(receiver)
    }

    async fn run(self: Arc<Self>, name: Name, sender: watch::Sender<Option<Outcome>>) {
        let guard = InFlightGuard { shared: &self, name: &name };
        let outcome = look_up(self.server, &name).await.map(|found| {
            let addresses: Arc<[IpAddr]> = found.addresses.into();
            let until = Instant::now() + found.ttl.clamp(TTL_MIN, TTL_MAX);
            self.lock().cache.put(name.clone(), Cached { addresses: addresses.clone(), until });
            addresses
        });
        drop(guard);
        sender.send_replace(Some(outcome));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a name from `in_flight`, even if its lookup panics or is dropped.
struct InFlightGuard<'a> {
    shared: &'a Shared,
    name: &'a Name,
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.shared.lock().in_flight.remove(self.name);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::fake_server::{Asked, FakeServer, a};
    use super::*;

    fn one_address(ttl: u32) -> impl Fn(&Asked) -> Vec<Vec<u8>> {
        move |asked| {
            vec![if asked.is_v4() {
                asked.answer(&[a("a.example", ttl, [192, 0, 2, 7])])
            } else {
                asked.answer(&[])
            }]
        }
    }

    #[tokio::test]
    async fn answer_is_cached_for_its_bounded_ttl() {
        // The server's TTL, and how long the answer is cached, in seconds.
        for (ttl, kept) in [(60, 60), (0, 1), (86_400, 300)] {
            let server = FakeServer::start(one_address(ttl)).await;
            let resolver = Resolver::new(server.address());
            for host in ["a.example", "A.Example", "a.example"] {
                assert_eq!(resolver.resolve(host).await.unwrap(), ["192.0.2.7".parse::<IpAddr>().unwrap()]);
            }
            assert_eq!(server.asked(), 2, "one query for each family");
            tokio::time::pause();
            tokio::time::advance(Duration::from_millis(kept * 1000 - 500)).await;
            resolver.resolve("a.example").await.unwrap();
            assert_eq!(server.asked(), 2, "kept for {kept} s");
            tokio::time::advance(Duration::from_secs(1)).await;
            tokio::time::resume();
            resolver.resolve("a.example").await.unwrap();
            assert_eq!(server.asked(), 4, "not kept longer than {kept} s");
        }
    }

    #[tokio::test]
    async fn callers_share_one_lookup() {
        let server = FakeServer::start(one_address(60)).await;
        let resolver = Arc::new(Resolver::new(server.address()));
        // The first caller goes away as soon as its lookup runs.
        assert!(resolver.resolve("a.example").now_or_never().is_none());
        assert_eq!(resolver.shared.lock().in_flight.len(), 1);
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let resolver = Arc::clone(&resolver);
            callers.spawn(async move { resolver.resolve("a.example").await.unwrap() });
        }
        assert!(callers.join_all().await.iter().all(|addresses| addresses.len() == 1));
        assert_eq!(server.asked(), 2);
        assert!(resolver.shared.lock().in_flight.is_empty());
    }

    #[tokio::test]
    async fn failures_are_not_cached() {
        let server = FakeServer::start(|asked| vec![asked.code(3)]).await;
        let resolver = Resolver::new(server.address());
        for asked in [2, 4] {
            assert!(matches!(resolver.resolve("a.example").await, Err(ResolveError::NotFound)));
            assert_eq!(server.asked(), asked);
        }
        assert!(resolver.shared.lock().in_flight.is_empty());
    }

    #[tokio::test]
    async fn addresses_and_invalid_hosts_are_never_queried() {
        let server = FakeServer::start(|asked| vec![asked.code(3)]).await;
        let resolver = Resolver::new(server.address());
        assert_eq!(resolver.resolve("192.0.2.1").await.unwrap(), ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        for host in ["", "a b.example", "a..example", "é.example", "::1", "a.example."] {
            assert!(matches!(resolver.resolve(host).await, Err(ResolveError::NotFound)), "{host}");
        }
        assert_eq!(server.asked(), 0);
    }

    #[tokio::test]
    async fn cache_is_bounded() {
        let server = FakeServer::start(|asked| {
            let name = asked.name().to_owned();
            vec![if asked.is_v4() {
                asked.answer(&[a(&name, 60, [192, 0, 2, 7])])
            } else {
                asked.answer(&[])
            }]
        })
        .await;
        let resolver = Resolver::new(server.address());
        for index in 0..CACHED.get() + 10 {
            resolver.resolve(&format!("n{index}.example")).await.unwrap();
        }
        assert_eq!(resolver.shared.lock().cache.len(), CACHED.get());
    }
}
