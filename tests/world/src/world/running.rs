//! Starting a world, and asking it what it saw.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

use rustls::ServerConfig;

use super::routes::State;
use super::{Backend, Lock, ORIGIN, Seen, TestAuthority, dns, origin};
use crate::messages_api::Script;

/// Everything that is outside.
#[derive(Debug)]
pub struct World {
    address: Ipv4Addr,
    authority: TestAuthority,
    state: Arc<State>,
}

impl World {
    /// The one world of this process at [`ORIGIN`], started on first use.
    ///
    /// # Panics
    ///
    /// When its addresses cannot be bound: the tests were started outside the namespace that `cargo xtask e2e` makes.
    pub fn shared() -> &'static World {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(|| {
            World::start(ORIGIN).expect(
                "the world could not start; run the tests with `cargo xtask e2e`, which makes its network namespace",
            )
        })
    }

    /// A world at `address`: names on port 53, HTTP on 80, HTTPS on 443. It listens when this returns, runs on threads of
    /// its own, so that it outlives the runtime of any one test, and ends with the process.
    ///
    /// # Errors
    ///
    /// When a port cannot be bound.
    pub fn start(address: Ipv4Addr) -> io::Result<World> {
        let authority = TestAuthority::generate();
        let state = Arc::new(State::new(Script::default()));
        let server = (authority.server_config(), Arc::clone(&state));
        let (started, ready) = channel();
        std::thread::spawn(move || serve(address, server, &started));
        ready.recv().map_err(io::Error::other)??;
        Ok(World { address, authority, state })
    }

    /// The authority of the origin's certificates, for `upstream.extra_roots`.
    #[must_use]
    pub fn roots_pem(&self) -> &str {
        self.authority.certificate_pem()
    }

    /// The name server.
    #[must_use]
    pub fn dns(&self) -> SocketAddr {
        SocketAddr::from((self.address, 53))
    }

    /// What the origin was asked for under `host`: the first ten thousand requests.
    #[must_use]
    pub fn seen(&self, host: &str) -> Vec<Seen> {
        self.state.seen(host)
    }

    /// Forgets what the origin was asked for under `host`.
    pub fn forget(&self, host: &str) {
        self.state.forget(host);
    }

    /// From now on `host` answers only to requests that open `lock`.
    pub fn lock(&self, host: &str, lock: Lock) {
        self.state.lock(host, lock);
    }

    /// From now on `backend` answers for `domain` and for every name below it.
    pub fn delegate(&self, domain: &str, backend: Backend) {
        self.state.delegate(domain, backend);
    }

    /// Lets the server-sent-event stream `name` (the last part of `/sse/NAME` or `/mirror/sse/NAME`) go on to its second event.
    pub fn release(&self, name: &str) {
        self.state.release(name);
    }
}

/// Serves until the process ends; says over the channel whether it could begin.
fn serve(
    address: Ipv4Addr,
    (config, state): (Arc<ServerConfig>, Arc<State>),
    started: &Sender<io::Result<()>>,
) {
    let serving = async {
        let bound = origin::bind(IpAddr::V4(address)).await?;
        let names = dns::bind(SocketAddr::from((address, 53))).await?;
        // Whoever waited may have given up.
        let _ = started.send(Ok(()));
        tokio::join!(origin::serve(bound, config, state), dns::serve(names, address));
        Ok(())
    };
    let ended = tokio::runtime::Runtime::new().and_then(|runtime| runtime.block_on(serving));
    let _ = started.send(ended);
}
