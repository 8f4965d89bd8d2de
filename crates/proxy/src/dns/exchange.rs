//! One query to the name server and its answer: over UDP, then over TCP if the answer does not fit.
//!
//! Every query has its own connected socket, with a port that the kernel chooses, and a random id:
//! a forger has to guess both. There is no deadline here: the caller's covers everything.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::message::Name;
use super::response::{Family, Query, Response, Unusable};

/// How long to wait for the first UDP answer before the query is sent once more.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);
/// The longest UDP answer that is read. We announce no EDNS, so servers send at most 512 bytes.
const UDP_BYTES: usize = 4096;

/// An exchange without an answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    /// The operating system reported an error.
    #[error("failed to reach the name server")]
    Io(#[from] io::Error),
    /// The answer is not readable.
    #[error("unreadable answer")]
    Malformed,
}

/// Asks `server` for the addresses of `name`; at most `hops` aliases are followed within an answer.
pub(super) async fn ask(
    server: SocketAddr,
    name: &Name,
    family: Family,
    hops: usize,
) -> Result<Response, ExchangeError> {
    let query = || Query { id: rand::random(), name: name.clone(), family };
    let mut asked = query();
    let first = tokio::time::timeout(FIRST_ATTEMPT, over_udp(server, &asked, hops)).await;
    let response = match first {
        Ok(done) => done?,
        Err(_elapsed) => {
            asked = query();
            over_udp(server, &asked, hops).await?
        }
    };
    if response == Response::Truncated { over_tcp(server, &asked, hops).await } else { Ok(response) }
}

async fn over_udp(server: SocketAddr, query: &Query, hops: usize) -> Result<Response, ExchangeError> {
    let any = match server.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(&query.to_message()).await?;
    let mut buffer = vec![0; UDP_BYTES];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match query.read(buffer.get(..length).unwrap_or_default(), hops) {
            Ok(response) => return Ok(response),
            Err(Unusable::Malformed) => return Err(ExchangeError::Malformed),
            // A forged or late answer: the real one may still arrive.
            Err(Unusable::Foreign) => {}
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &Query, hops: usize) -> Result<Response, ExchangeError> {
    let message = query.to_message();
    let mut framed =
        u16::try_from(message.len()).map_err(|_| ExchangeError::Malformed)?.to_be_bytes().to_vec();
    framed.extend_from_slice(&message);
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    match query.read(&answer, hops) {
        Ok(Response::Truncated) | Err(_) => Err(ExchangeError::Malformed),
        Ok(response) => Ok(response),
    }
}
