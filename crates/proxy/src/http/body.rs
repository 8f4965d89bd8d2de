//! An answer's body on its way through, frame by frame: never more of it in memory than the windows of its connections.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::exchange::Exchange;
use crate::scrub::{Needles, Scrubbed, scrub_headers};
use crate::upload::{BodyError, fit};
use crate::upstream::Lease;

/// An answer's body on its way to the client. It carries the exchange, so that the record is written when the body ends.
pub(crate) struct Download {
    source: Source,
    exchange: Option<Exchange>,
}

enum Source {
    /// The upstream's body, and the connection that it comes over.
    Upstream { answer: Answer, lease: Option<Lease> },
    /// Our own words.
    Page(Option<Bytes>),
}

/// An upstream's body.
enum Answer {
    /// As it comes.
    Plain(Incoming),
    /// Without real values.
    Scrubbed(Box<ScrubbedAnswer>),
}

struct ScrubbedAnswer {
    body: Scrubbed<Incoming>,
    /// For the trailers.
    needles: Arc<Needles>,
    counter: Arc<AtomicU32>,
}

impl Download {
    /// A body that comes over `lease`.
    pub(super) fn upstream(incoming: Incoming, lease: Lease, exchange: Exchange) -> Self {
        Self::of(Answer::Plain(incoming), lease, exchange)
    }

    /// The same, without what is in `needles`.
    pub(super) fn scrubbed(
        body: Scrubbed<Incoming>,
        needles: Arc<Needles>,
        lease: Lease,
        exchange: Exchange,
    ) -> Self {
        let answer = ScrubbedAnswer { body, needles, counter: exchange.scrub_counter() };
        Self::of(Answer::Scrubbed(Box::new(answer)), lease, exchange)
    }

    fn of(answer: Answer, lease: Lease, exchange: Exchange) -> Self {
        // A client whose window is full never polls the body.
        lease.delivered();
        let mut download =
            Self { source: Source::Upstream { answer, lease: Some(lease) }, exchange: Some(exchange) };
        download.finish_if_ended();
        download
    }

    /// A body of our own; without an exchange where nothing could be recorded.
    pub(super) fn page(page: Bytes, exchange: Option<Exchange>) -> Self {
        Self { source: Source::Page(Some(page).filter(|page| !page.is_empty())), exchange }
    }

    /// Gives the connection back as soon as the body has been read: hyper does not ask again.
    fn finish_if_ended(&mut self) {
        if let Source::Upstream { answer, lease } = &mut self.source
            && answer.is_end_stream()
            && let Some(lease) = lease.take()
        {
            lease.finish();
        }
    }
}

impl Answer {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self {
            Self::Plain(incoming) => {
                let frame = ready!(Pin::new(incoming).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map(|frame| fit(frame, &[])).map_err(BodyError::from)))
            }
            Self::Scrubbed(answer) => {
                let frame = ready!(Pin::new(&mut answer.body).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map(|frame| answer.fit(frame))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(incoming) => incoming.is_end_stream(),
            Self::Scrubbed(answer) => answer.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(incoming) => incoming.size_hint(),
            Self::Scrubbed(answer) => answer.body.size_hint(),
        }
    }
}

impl ScrubbedAnswer {
    /// A frame with trailers that may travel, and have no real value in them.
    fn fit(&self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match fit(frame, &[]).into_trailers() {
            Ok(trailers) => {
                let (trailers, count) = scrub_headers(&self.needles, trailers);
                self.counter.fetch_add(count, Ordering::Relaxed);
                Frame::trailers(trailers)
            }
            Err(frame) => frame,
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
            Source::Upstream { answer, lease } => match answer.poll_frame(cx) {
                Poll::Pending => {
                    lease.as_ref().inspect(|lease| lease.waiting());
                    return Poll::Pending;
                }
                Poll::Ready(None) => {
                    if let Some(lease) = lease.take() {
                        lease.finish();
                    }
                    None
                }
                Poll::Ready(Some(Ok(frame))) => {
                    lease.as_ref().inspect(|lease| lease.delivered());
                    Some(Ok(frame))
                }
                Poll::Ready(Some(Err(error))) => {
                    if let Some(exchange) = &mut this.exchange {
                        exchange.failed(format!("Reset: {error}"));
                    }
                    Some(Err(error))
                }
            },
        };
        if let (Some(Ok(frame)), Some(exchange)) = (&frame, &mut this.exchange) {
            let data = frame.data_ref().map_or(&[][..], |data| data);
            if let Source::Upstream { lease, .. } = &mut this.source
                && let Err(exceeded) = exchange.received(data)
            {
                // Nothing more of it is read.
                drop(lease.take());
                exchange.failed(format!("Budget: {}", exceeded.message()));
                return Poll::Ready(Some(Err(exceeded.message().into())));
            }
            exchange.downloaded(data.len());
        }
        this.finish_if_ended();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Upstream { answer, .. } => answer.is_end_stream(),
            Source::Page(page) => page.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Upstream { answer, .. } => answer.size_hint(),
            Source::Page(page) => SizeHint::with_exact(page.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}
