//! Containers with a pseudo-terminal.

use std::io;

use bytes::BytesMut;
use futures_util::stream;
use http::Method;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::attach::{Chunk, Output, Stdin};
use crate::connection::Engine;
use crate::container::container_call;
use crate::error::{Cause, EngineError};
use crate::libpod::escape;

/// Buffer size for reading a terminal.
const PIECE: usize = 16 * 1024;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// The length of a line.
    pub columns: u16,
    /// The number of lines.
    pub rows: u16,
}

impl Engine {
    /// [`attach_output`](Self::attach_output), for a container with a terminal: its output is one
    /// raw stream, without frames of the engine.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn attach_terminal(&self, container: &str) -> Result<(Stdin, Output), EngineError> {
        // No detach keys, which a program could need itself: the engine has default ones.
        let path = format!(
            "/containers/{}/attach?stream=true&stdin=true&stdout=true&detachKeys=",
            escape(container)
        );
        let call = container_call("attach to container", container, Method::POST, path);
        let (read, write) = tokio::io::split(self.libpod().upgrade(call).await?);
        Ok((Stdin::new(write), raw(container, read)))
    }

    /// Resizes the terminal of a running container.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn resize_container(&self, container: &str, size: TerminalSize) -> Result<(), EngineError> {
        let TerminalSize { columns, rows } = size;
        let path = format!("/containers/{}/resize?h={rows}&w={columns}", escape(container));
        let call = container_call("resize the terminal of container", container, Method::POST, path);
        self.libpod().call(call).await.map(drop)
    }
}

/// The output of a terminal, until its process has ended.
pub(crate) fn raw(container: &str, read: impl AsyncRead + Send + Unpin + 'static) -> Output {
    let container = container.to_owned();
    Output::new(stream::unfold(Some(read), move |read| {
        let container = container.clone();
        async move {
            let mut read = read?;
            let mut bytes = BytesMut::with_capacity(PIECE);
            match read.read_buf(&mut bytes).await {
                Ok(0) => None,
                Ok(_) => Some((Ok(Chunk::Stdout(bytes.freeze())), Some(read))),
                // Podman 4 resets the connection if a process ended without reading its input.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
                Err(error) => {
                    let error = EngineError::new(
                        "read the output of container",
                        container,
                        Cause::HungUp(Box::new(error)),
                    );
                    Some((Err(error), None))
                }
            }
        }
    }))
}
