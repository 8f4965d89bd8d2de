//! The three streams of a container's first process.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bollard::container::{AttachContainerResults, LogOutput};
use bollard::errors::Error;
use bollard::query_parameters::AttachContainerOptionsBuilder;
use bytes::Bytes;
use futures_util::Stream;
use tokio::io::AsyncWrite;

use crate::connection::{CALL_DEADLINE, Engine, within};
use crate::error::{Cause, EngineError};

/// A piece of output, as it arrived: at most 8 KiB, cut anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Of its stdout.
    Stdout(Bytes),
    /// Of its stderr.
    Stderr(Bytes),
}

/// What the process writes, until it has ended. The order between stdout and stderr is not kept.
///
/// The end of the stream may also mean that the engine's service died: only [`Engine::wait_container`] says which.
pub struct Output(Pin<Box<dyn Stream<Item = Result<Chunk, EngineError>> + Send>>);

/// The engine's frames of a container's output as chunks, until one is not understood.
struct Frames<S> {
    container: String,
    inner: S,
    /// What the process did not write, if nothing follows it.
    held: Option<Bytes>,
    /// What came after [`held`](Self::held).
    behind: Option<Chunk>,
    ended: bool,
}

/// What the process reads. Shutting it down is the end of the process's input. A process that ended, or closed its stdin, makes
/// writing fail with `BrokenPipe`.
pub struct Stdin(Pin<Box<dyn AsyncWrite + Send>>);

impl Engine {
    /// Connects to the streams of a created container. Podman sets its network up for that: what the container is can be inspected
    /// afterwards, while its process does not run yet.
    ///
    /// # Errors
    ///
    /// As of every call: see [`EngineError`].
    pub async fn attach_container(
        &self,
        container: &str,
        stdin: bool,
    ) -> Result<(Stdin, Output), EngineError> {
        let options = AttachContainerOptionsBuilder::default()
            .stream(true)
            .stdin(stdin)
            .stdout(true)
            .stderr(true)
            .build();
        let call = self.docker().attach_container(container, Some(options));
        let AttachContainerResults { output, input } =
            within(CALL_DEADLINE, "attach to container", container, call).await?;
        Ok((Stdin::new(input), Output::of_frames(container, output)))
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
        if let Some(chunk) = self.behind.take() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        while !self.ended {
            let chunk = match ready!(Pin::new(&mut self.inner).poll_next(context)) {
                Some(Ok(LogOutput::StdOut { message })) => Chunk::Stdout(message),
                Some(Ok(LogOutput::StdErr { message })) if self.held.is_none() && is_of_podman(&message) => {
                    self.held = Some(message);
                    continue;
                }
                Some(Ok(LogOutput::StdErr { message })) => Chunk::Stderr(message),
                end => {
                    self.ended = true;
                    return Poll::Ready(self.error_of(end).map(Err));
                }
            };
            let Some(held) = self.held.take() else {
                return Poll::Ready(Some(Ok(chunk)));
            };
            self.behind = Some(chunk);
            return Poll::Ready(Some(Ok(Chunk::Stderr(held))));
        }
        Poll::Ready(None)
    }
}

/// Whether `frame` is what podman writes into the stderr of a process that ended without having read its input. It is the last frame.
fn is_of_podman(frame: &[u8]) -> bool {
    std::str::from_utf8(frame).is_ok_and(|text| {
        ["write", "read"].iter().any(|call| {
            text.starts_with(&format!("Error: {call} unix")) && text.contains(&format!("/attach: {call}: "))
        })
    })
}

impl<S> Frames<S> {
    /// Why the output ends with what is no chunk; none where that is no error.
    fn error_of(&self, end: Option<Result<LogOutput, Error>>) -> Option<EngineError> {
        let cause = match end? {
            // Podman 4 resets the connection of a process that ended without having read its input.
            Err(Error::IOError { err }) if err.kind() == io::ErrorKind::ConnectionReset => return None,
            Err(error) => error.into(),
            Ok(_) => Cause::Answer("a frame of output belongs to no stream".to_owned()),
        };
        Some(self.failed(cause))
    }

    fn failed(&self, cause: Cause) -> EngineError {
        EngineError::new("read the output of container", &self.container, cause)
    }
}

impl Output {
    /// Output that comes from no engine. An error is its end.
    pub fn new(chunks: impl Stream<Item = Result<Chunk, EngineError>> + Send + 'static) -> Self {
        Self(Box::pin(chunks))
    }

    pub(crate) fn of_frames(
        container: &str,
        frames: impl Stream<Item = Result<LogOutput, Error>> + Send + Unpin + 'static,
    ) -> Self {
        Self::new(Frames {
            container: container.to_owned(),
            inner: frames,
            held: None,
            behind: None,
            ended: false,
        })
    }
}

impl Stdin {
    /// The stdin of a process that no engine runs.
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
