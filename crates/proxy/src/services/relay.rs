//! Streams to services of the host, over the sandbox's Unix sockets.

use std::io;
use std::path::Path;

use sandbox_proxy_protocol::{RelayAnswer, RelayRequest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// The reason why there is no stream to a service.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RelayError {
    /// The sandbox's end of the relay is not reachable, or broke.
    #[error("failed to reach the sandbox's relay")]
    Relay(#[source] io::Error),
    /// Nothing listens where the service should be.
    #[error("the service refused the connection: is it running?")]
    Refused,
    /// The service did not answer in time.
    #[error("the service did not answer in time")]
    Timeout,
    /// The sandbox failed to connect to it.
    #[error("the sandbox failed to connect to the service: its own log states why")]
    Failed,
}

/// A stream to the service behind `socket`.
pub(crate) async fn connect(socket: &Path) -> Result<UnixStream, RelayError> {
    let (stream, answer) = ask(socket, RelayRequest::Connect).await.map_err(RelayError::Relay)?;
    match answer {
        RelayAnswer::Connected => Ok(stream),
        RelayAnswer::Refused => Err(RelayError::Refused),
        RelayAnswer::Timeout => Err(RelayError::Timeout),
        RelayAnswer::Failed => Err(RelayError::Failed),
    }
}

/// Checks that the sandbox's end of `socket` is there.
pub(crate) async fn probe(socket: &Path) -> io::Result<()> {
    ask(socket, RelayRequest::Probe).await.map(drop)
}

async fn ask(socket: &Path, request: RelayRequest) -> io::Result<(UnixStream, RelayAnswer)> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(&[request.as_byte()]).await?;
    let answer = RelayAnswer::from_byte(stream.read_u8().await?);
    let answer = answer.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an unknown answer"))?;
    Ok((stream, answer))
}
