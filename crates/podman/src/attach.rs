//! The three streams of a container's first process.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bollard::query_parameters::{AttachContainerOptions, AttachContainerOptionsBuilder};
use bytes::Bytes;
use futures_util::Stream;
use tokio::io::AsyncWrite;

use crate::connection::{CALL_DEADLINE, Engine, within};
use crate::error::{Cause, EngineError};

/// A piece of output, as it arrived: at most 8 KiB, split at any byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// From stdout.
    Stdout(Bytes),
    /// From stderr.
    Stderr(Bytes),
}

/// The output of the process, until its end. The relative order of stdout and stderr is lost.
///
/// The end of the stream may also mean that the engine's service died: only
/// [`Engine::wait_container`] distinguishes them.
pub struct Output(Pin<Box<dyn Stream<Item = Result<Chunk, EngineError>> + Send>>);

/// Decodes the engine's frames of a container's output to chunks, until an invalid one.
struct Frames<S> {
    container: String,
    inner: S,
    ended: bool,
}

/// The input of the process. Shutting it down ends the input. Writing fails with `BrokenPipe` if
/// the process ended or closed its stdin.
pub struct Stdin(Pin<Box<dyn AsyncWrite + Send>>);

impl Engine {
    /// Connects to the output of a created container. Podman sets up its network for that:
    /// afterwards the container can be inspected before its process runs.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn attach_output(&self, container: &str) -> Result<Output, EngineError> {
        let options = AttachContainerOptionsBuilder::default().stream(true).stdout(true).stderr(true).build();
        Ok(Output::of_frames(container, self.attach(container, options).await?.output))
    }

    /// Connects to the input of a container that is set up. It is separate from that of the output:
    /// if a process ends before it receives its input, podman closes the whole connection, and
    /// loses the output that it has not read yet.
    ///
    /// # Errors
    ///
    /// Like every call: see [`EngineError`].
    pub async fn attach_stdin(&self, container: &str) -> Result<Stdin, EngineError> {
        let options = AttachContainerOptionsBuilder::default().stream(true).stdin(true).build();
        Ok(Stdin::new(self.attach(container, options).await?.input))
    }

    async fn attach(
        &self,
        container: &str,
        options: AttachContainerOptions,
    ) -> Result<AttachContainerResults, EngineError> {
        let call = self.docker().attach_container(container, Some(options));
        within(CALL_DEADLINE, "attach to container", container, call).await
    }
}

impl Stream for Output {
    type Item = Result<Chunk, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl<S: Stream<Item = Result<LogOutput, Error>> + Unpin> Stream for Frames<S> {
    type Item = Result<Chunk, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let cause = match ready!(Pin::new(&mut self.inner).poll_next(context)) {
            Some(Ok(LogOutput::StdOut { message })) => return Poll::Ready(Some(Ok(Chunk::Stdout(message)))),
            Some(Ok(LogOutput::StdErr { message })) => return Poll::Ready(Some(Ok(Chunk::Stderr(message)))),
            Some(Ok(_)) => Some(Cause::Answer("a frame of output belongs to no stream".to_owned())),
            Some(Err(error)) => Some(error.into()),
            None => None,
        };
        self.ended = true;
        let failed = |cause| Err(EngineError::new("read the output of container", &self.container, cause));
        Poll::Ready(cause.map(failed))
    }
}

impl Output {
    /// Output without an engine. It ends at the first error.
    pub fn new(chunks: impl Stream<Item = Result<Chunk, EngineError>> + Send + 'static) -> Self {
        Self(Box::pin(chunks))
    }

    pub(crate) fn of_frames(
        container: &str,
        frames: impl Stream<Item = Result<LogOutput, Error>> + Send + Unpin + 'static,
    ) -> Self {
        Self::new(Frames { container: container.to_owned(), inner: frames, ended: false })
    }
}

impl Stdin {
    /// The stdin of a process without an engine.
    pub fn new(writer: impl AsyncWrite + Send + 'static) -> Self {
        Self(Box::pin(writer))
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll_shutdown(context)
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output")
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stdin")
    }
}
