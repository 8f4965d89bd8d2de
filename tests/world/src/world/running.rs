//! Starting a world.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use rustls::ServerConfig;

use super::routes::State;
use super::{TestAuthority, control, dns, origin};
use crate::messages_api::Script;

/// A world that this process serves.
#[derive(Debug)]
pub struct WorldServer {
    address: Ipv4Addr,
    authority: TestAuthority,
    state: Arc<State>,
}

impl WorldServer {
    /// A world at `address`: names on port 53, HTTP on 80, HTTPS on 443. It listens when this
    /// returns, runs on threads of its own, so that it outlives the runtime of any one test, and
    /// ends with the process.
    ///
    /// # Errors
    ///
    /// When a port cannot be bound.
    pub fn start(address: Ipv4Addr) -> io::Result<Self> {
        let authority = TestAuthority::generate();
        let state = Arc::new(State::new(Script::default()));
        let server = (authority.server_config(), Arc::clone(&state));
        let (started, ready) = channel();
        std::thread::spawn(move || serve(address, server, &started));
        ready.recv().map_err(io::Error::other)??;
        Ok(Self { address, authority, state })
    }

    /// Lets other processes ask what the origin saw, and say what it does, at the Unix socket
    /// `socket`: see [`World`](super::World).
    ///
    /// # Errors
    ///
    /// When the socket cannot be bound.
    pub fn control_at(&self, socket: &Path) -> io::Result<()> {
        control::serve(socket, Arc::clone(&self.state), self.roots_pem().to_owned())
    }

    /// The authority of the origin's certificates.
    #[must_use]
    pub fn roots_pem(&self) -> &str {
        self.authority.certificate_pem()
    }

    /// The name server.
    #[must_use]
    pub fn dns(&self) -> SocketAddr {
        SocketAddr::from((self.address, 53))
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
