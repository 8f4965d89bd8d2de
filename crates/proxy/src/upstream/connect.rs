//! Opens one connection: resolves the name once, checks the addresses, and connects to exactly
//! those.
//!
//! Invariant: connections go only to addresses that the guard permitted, and no name is looked up
//! twice for one connection, so a DNS answer that changes in between has no effect.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;

use super::error::{Failure, UpstreamError};
use super::raw_line::{RawLine, WithRawLine};
use super::sender::Sender;
use crate::context::Context;
use crate::services::{self, RelayError};

/// How long an address may take before the next one is tried in parallel.
const STAGGER: Duration = Duration::from_millis(250);
/// Maximum addresses of one name that are tried.
const ADDRESSES: usize = 8;
/// Maximum HTTP/2 connections with wide windows at once.
const WIDE: usize = 4;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    /// The host, as the gate permitted it.
    pub(crate) host: Arc<str>,
    /// Whether the connection uses TLS.
    pub(crate) tls: bool,
    /// The relay's socket, for a service of the host; the connection uses no TLS, and no name is
    /// resolved.
    pub(crate) service: Option<Arc<Path>>,
}

/// The protocols that a connection may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// HTTP/2 where the upstream offers it, else HTTP/1.1.
    Any,
    /// HTTP/1.1, for an upgrade, or for a request that begins with this line.
    Http1(Option<RawLine>),
}

/// Opens connections.
pub(crate) struct Dialer {
    context: Arc<Context>,
    any: TlsConnector,
    http1: TlsConnector,
    /// A permit for each connection with wide windows.
    wide: Arc<Semaphore>,
}

impl Dialer {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let any = TlsConnector::from(Arc::clone(&context.upstream_tls));
        let mut config = ClientConfig::clone(&context.upstream_tls);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = TlsConnector::from(Arc::new(config));
        Self { context, any, http1, wide: Arc::new(Semaphore::new(WIDE)) }
    }

    /// How long it may take to establish a connection.
    pub(super) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.context.limits.connect_timeout_ms)
    }

    /// A new connection to `destination`, ready for a request.
    pub(crate) async fn dial(
        &self,
        destination: &Destination,
        protocols: Protocols,
    ) -> Result<Sender, UpstreamError> {
        match timeout(self.connect_timeout(), self.connect(destination, protocols)).await {
            Ok(connected) => connected,
            Err(_elapsed) => {
                Err(UpstreamError::of_text(Failure::Timeout, "the connection was not made in time"))
            }
        }
    }

    async fn connect(
        &self,
        destination: &Destination,
        protocols: Protocols,
    ) -> Result<Sender, UpstreamError> {
        if let Some(socket) = &destination.service {
            let stream = relay(socket).await?;
            return http1(stream, protocols).await;
        }
        let addresses = self.addresses(destination).await?;
        let stream = race(addresses).await?;
        // Small requests must not wait for more data.
        let _ = stream.set_nodelay(true);
        if !destination.tls {
            return http1(stream, protocols).await;
        }
        let name = ServerName::try_from(destination.host.to_string())
            .map_err(|error| UpstreamError::new(Failure::Tls, &error))?;
        let connector = if protocols == Protocols::Any { &self.any } else { &self.http1 };
        let stream = connector
            .connect(name, stream)
            .await
            .map_err(|error| UpstreamError::new(Failure::Tls, &error))?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if http2 && protocols == Protocols::Any {
            Sender::http2(stream, Arc::clone(&self.wide).try_acquire_owned().ok()).await
        } else {
            http1(stream, protocols).await
        }
    }

    /// The addresses of the host that the guard permits, IPv4 first.
    async fn addresses(&self, destination: &Destination) -> Result<Vec<SocketAddr>, UpstreamError> {
        let mut addresses = if let Ok(address) = destination.host.parse() {
            vec![IpAddr::V4(address)]
        } else {
            let resolved = self.context.resolver.resolve(&destination.host).await;
            resolved.map_err(|error| UpstreamError::new(Failure::Dns, &error))?
        };
        let guard = &self.context.guard;
        let is_own = addresses.iter().any(|address| guard.is_own(*address));
        addresses.retain(|address| guard.permits(*address));
        addresses.sort_by_key(IpAddr::is_ipv6);
        addresses.truncate(ADDRESSES);
        if addresses.is_empty() {
            return Err(if is_own {
                UpstreamError::of_text(Failure::OwnAddress, "the name leads to this machine")
            } else {
                UpstreamError::of_text(Failure::Address, "the name has only private or reserved addresses")
            });
        }
        // A request goes to the port that it arrived at.
        let listen = &self.context.listen;
        let port = if destination.tls { listen.https_port } else { listen.http_port };
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

async fn relay(socket: &Path) -> Result<UnixStream, UpstreamError> {
    services::connect(socket).await.map_err(|error| {
        let failure = if matches!(error, RelayError::Timeout) { Failure::Timeout } else { Failure::Connect };
        UpstreamError::new(failure, &error)
    })
}

async fn http1<S>(stream: S, protocols: Protocols) -> Result<Sender, UpstreamError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match protocols {
        Protocols::Http1(Some(line)) => Sender::http1(WithRawLine::new(stream, line)).await,
        Protocols::Http1(None) | Protocols::Any => Sender::http1(stream).await,
    }
}

/// The first of `addresses` to answer; each has a head start of [`STAGGER`] over the next.
async fn race(addresses: Vec<SocketAddr>) -> Result<TcpStream, UpstreamError> {
    let mut waiting = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut last = None;
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(TcpStream::connect(address));
        } else if attempts.is_empty() {
            let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            return Err(UpstreamError::new(Failure::Connect, &last.unwrap_or(refused)));
        }
        let next = Instant::now() + STAGGER;
        tokio::select! {
            Some(attempt) = attempts.join_next() => match attempt {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = Some(error),
                Err(error) => last = Some(std::io::Error::other(error)),
            },
            () = sleep_until(next), if waiting.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn dead_address_does_not_block_a_live_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let living = listener.local_addr().unwrap();
        let dead = SocketAddr::new(living.ip(), 1);
        assert_eq!(race(vec![dead, living]).await.unwrap().peer_addr().unwrap(), living);
        assert_eq!(race(vec![dead]).await.unwrap_err().kind(), Failure::Connect);
    }
}
