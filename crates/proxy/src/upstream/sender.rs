//! One connection to an upstream, in the protocol that both sides speak.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;

use super::error::{Failure, UpstreamError};
use super::interim::Guarded;
use crate::upload::Upload;

/// Maximum bytes of an HTTP/1 response head, and of data read ahead of a slow client.
const BUFFER: usize = 64 * 1024;
/// Maximum headers of a response.
const HEADERS: usize = 256;
/// Bytes that an upstream may send on one HTTP/2 stream, and on a whole connection, before the
/// client has read them: on a wide connection, enough for a fast upstream far away.
const WIDE_STREAM: u32 = 2 * 1024 * 1024;
const WIDE_CONNECTION: u32 = 4 * 1024 * 1024;
/// The same on all other connections: there may be as many of them as requests, and their windows
/// must not fill the memory.
const NARROW: u32 = 64 * 1024 - 1;
/// How often a connection with streams in progress is pinged, and how long the response may take.
const PING: Duration = Duration::from_mins(1);
const PONG: Duration = Duration::from_secs(20);

/// Sends requests over a connection. The connection itself runs in its own task until the last
/// sender is dropped.
#[derive(Debug)]
pub(crate) enum Sender {
    /// One request at a time.
    Http1(http1::SendRequest<Upload>),
    /// Many at once; clones share the connection.
    Http2(Shareable),
}

/// A sender of an HTTP/2 connection.
#[derive(Debug, Clone)]
pub(crate) struct Shareable {
    sender: http2::SendRequest<Upload>,
    /// How many requests the upstream takes at once.
    room: Arc<AtomicUsize>,
}

impl Shareable {
    /// Whether the connection takes no more requests.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// How many requests the upstream takes at once.
    pub(super) fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }
}

impl Sender {
    /// Speaks HTTP/1.1 over `stream`, leniently where upstreams are known to be sloppy and nothing
    /// is ambiguous.
    pub(super) async fn http1<S>(stream: S) -> Result<Self, UpstreamError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .preserve_header_case(true)
            .max_buf_size(BUFFER)
            .max_headers(HEADERS)
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| UpstreamError::new(Failure::Reset, &error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "an upstream connection ended");
            }
        });
        Ok(Self::Http1(sender))
    }

    /// Speaks HTTP/2 over `stream`, with wide windows as long as it holds `wide`.
    pub(super) async fn http2<S>(stream: S, wide: Option<OwnedSemaphorePermit>) -> Result<Self, UpstreamError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (stream_window, connection_window) = match &wide {
            Some(_) => (WIDE_STREAM, WIDE_CONNECTION),
            None => (NARROW, NARROW),
        };
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(stream_window)
            .initial_connection_window_size(connection_window)
            .max_header_list_size(u32::try_from(BUFFER).unwrap_or(u32::MAX))
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .handshake(TokioIo::new(Guarded::new(stream)))
            .await
            .map_err(|error| UpstreamError::new(Failure::Reset, &error))?;
        let mut connection = Box::pin(connection);
        let room = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let current_room = Arc::clone(&room);
        let driven = poll_fn(move |cx| {
            let polled = connection.as_mut().poll(cx);
            current_room.store(connection.current_max_send_streams(), Ordering::Relaxed);
            polled
        });
        tokio::spawn(async move {
            if let Err(error) = driven.await {
                tracing::debug!(%error, "an upstream connection ended");
            }
            drop(wide);
        });
        Ok(Self::Http2(Shareable { sender, room }))
    }

    /// Whether it speaks HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Sends `request`. The error holds the request if none of it was sent.
    pub(crate) async fn send(
        &mut self,
        request: Request<Upload>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Upload>>> {
        match self {
            Self::Http1(sender) => sender.try_send_request(request).await,
            Self::Http2(shareable) => shareable.sender.try_send_request(request).await,
        }
    }
}
