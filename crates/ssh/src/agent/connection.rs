//! One client: messages with a length prefix, each with a deadline.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::event::Refusal;

/// Bytes of a message, as in OpenSSH.
pub(super) const MAX_MESSAGE: u32 = 256 << 10;
/// The time limit for a client to send a message, to read its answer, and to pause between
/// messages.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// A client.
pub(super) struct Connection(UnixStream);

impl Connection {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// The next message; `None` if the client has closed the connection, or has been idle for too
    /// long.
    pub(super) async fn read(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        match timeout(DEADLINE, self.0.read_u8()).await {
            Ok(Ok(first)) => {
                let rest = timeout(DEADLINE, self.read_rest(first)).await;
                rest.unwrap_or(Err(Refusal::Half)).map(Some)
            }
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }

    /// Reads everything after the first byte of the length.
    async fn read_rest(&mut self, first: u8) -> Result<Vec<u8>, Refusal> {
        let mut length = [first, 0, 0, 0];
        let [_, others @ ..] = &mut length;
        self.0.read_exact(others).await.map_err(|_| Refusal::Half)?;
        let length = u32::from_be_bytes(length);
        let size = usize::try_from(length).ok().filter(|_| (1..=MAX_MESSAGE).contains(&length));
        let mut message = vec![0; size.ok_or(Refusal::Length(length))?];
        self.0.read_exact(&mut message).await.map_err(|_| Refusal::Half)?;
        Ok(message)
    }

    /// Sends a message; returns `false` if the client is gone or does not read.
    pub(super) async fn write(&mut self, message: &[u8]) -> bool {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let frame = [&length.to_be_bytes(), message].concat();
        matches!(timeout(DEADLINE, self.0.write_all(&frame)).await, Ok(Ok(())))
    }
}
