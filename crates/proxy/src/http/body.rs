//! Bodies on their way through, frame by frame: never more of one in memory than the windows of its connections.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::exchange::Exchange;
use super::headers::trailers;
use crate::upstream::Lease;

/// A client that begins a body and then sends nothing of it for so long has abandoned it.
const UPLOAD_STALL: Duration = Duration::from_mins(5);

/// Errors of bodies, in the form that hyper takes.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// A request's body on its way to the upstream.
pub(crate) struct Upload {
    incoming: Incoming,
    counter: Arc<AtomicU64>,
    /// Set while the client owes us a frame.
    stall: Option<Pin<Box<Sleep>>>,
}

impl Upload {
    /// Counts what goes through in `counter`.
    pub(crate) fn new(incoming: Incoming, counter: Arc<AtomicU64>) -> Self {
        Self {
            incoming,
            counter,
            stall: None,
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(frame) => {
                this.stall = None;
                if let Some(Ok(frame)) = &frame {
                    let bytes = frame.data_ref().map_or(0, Bytes::len);
                    this.counter.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Poll::Ready(frame.map(|frame| frame.map(fit).map_err(BodyError::from)))
            }
            Poll::Pending => {
                // tidy: sleep: the deadline of a peer.
                let stall = this
                    .stall
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + UPLOAD_STALL)));
                match stall.as_mut().poll(cx) {
                    Poll::Ready(()) => {
                        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
                    }
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// A frame without the trailers that must not travel.
fn fit(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(received) => Frame::trailers(trailers(&received)),
        Err(frame) => frame,
    }
}

/// An answer's body on its way to the client. It carries the exchange, so that the record is written when the body ends.
pub(crate) struct Download {
    source: Source,
    exchange: Option<Exchange>,
}

enum Source {
    /// The upstream's body, and the connection that it comes over.
    Upstream {
        incoming: Incoming,
        lease: Option<Lease>,
    },
    /// Our own words.
    Page(Option<Bytes>),
}

impl Download {
    /// A body that comes over `lease`.
    pub(super) fn upstream(incoming: Incoming, lease: Lease, exchange: Exchange) -> Self {
        let mut download = Self {
            source: Source::Upstream {
                incoming,
                lease: Some(lease),
            },
            exchange: Some(exchange),
        };
        download.finish_if_ended();
        download
    }

    /// A body of our own; without an exchange where nothing could be recorded.
    pub(super) fn page(page: Bytes, exchange: Option<Exchange>) -> Self {
        Self {
            source: Source::Page(Some(page).filter(|page| !page.is_empty())),
            exchange,
        }
    }

    /// Gives the connection back as soon as the body has been read: hyper does not ask again.
    fn finish_if_ended(&mut self) {
        if let Source::Upstream { incoming, lease } = &mut self.source
            && incoming.is_end_stream()
            && let Some(lease) = lease.take()
        {
            lease.finish();
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match &mut this.source {
            Source::Page(page) => page.take().map(|page| Ok(Frame::data(page))),
            Source::Upstream { incoming, lease } => match Pin::new(incoming).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    if let Some(lease) = lease.take() {
                        lease.finish();
                    }
                    None
                }
                Poll::Ready(Some(Ok(frame))) => Some(Ok(fit(frame))),
                Poll::Ready(Some(Err(error))) => {
                    if let Some(exchange) = &mut this.exchange {
                        exchange.failed(format!("Reset: {error}"));
                    }
                    Some(Err(BodyError::from(error)))
                }
            },
        };
        if let (Some(Ok(frame)), Some(exchange)) = (&frame, &mut this.exchange) {
            exchange.downloaded(frame.data_ref().map_or(0, Bytes::len));
        }
        this.finish_if_ended();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Upstream { incoming, .. } => incoming.is_end_stream(),
            Source::Page(page) => page.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Upstream { incoming, .. } => incoming.size_hint(),
            Source::Page(page) => SizeHint::with_exact(page.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}
