//! Streams the body of a response frame by frame: memory never holds more of it than the windows of
//! its connections.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::exchange::Exchange;
use crate::scrub::{BodyScrub, Needles, Scrubbed};
use crate::upload::{BodyError, PolledFrame, fit};
use crate::upstream::Lease;

/// A response's body on its way to the client. It carries the exchange, so that the record is
/// written when the body ends.
pub(crate) struct Download(Source);

enum Source {
    /// The upstream's body.
    Upstream(Upstream),
    /// A page of the proxy's own; without an exchange where nothing could be recorded.
    Page(Option<Bytes>, Option<Exchange>),
}

/// An upstream's body.
struct Upstream {
    body: Scrubbed<Incoming>,
    /// Values that its trailers must not contain.
    needles: Option<Arc<Needles>>,
    /// The connection that carries the body, until the body has ended.
    lease: Option<Lease>,
    exchange: Exchange,
}

impl Download {
    /// A body received over `lease`, processed according to `scrub`, without the values in
    /// `needles`.
    pub(super) fn upstream(
        incoming: Incoming,
        scrub: BodyScrub,
        needles: Option<Arc<Needles>>,
        lease: Lease,
        exchange: Exchange,
    ) -> Self {
        // A client whose window is full never polls the body.
        lease.delivered();
        let body = Scrubbed::new(incoming, scrub, exchange.scrub_counter());
        let mut upstream = Upstream { body, needles, lease: Some(lease), exchange };
        upstream.finish_if_ended();
        Self(Source::Upstream(upstream))
    }

    /// A page of the proxy's own; without an exchange where nothing could be recorded.
    pub(super) fn page(page: Bytes, exchange: Option<Exchange>) -> Self {
        Self(Source::Page(Some(page).filter(|page| !page.is_empty()), exchange))
    }
}

impl Upstream {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> PolledFrame {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            self.lease.as_ref().inspect(|lease| lease.waiting());
            return Poll::Pending;
        };
        let frame = match frame {
            Some(Ok(frame)) => {
                self.lease.as_ref().inspect(|lease| lease.delivered());
                Some(self.pass(frame))
            }
            Some(Err(error)) => {
                self.exchange.failed(format!("Reset: {error}"));
                Some(Err(error))
            }
            None => {
                self.finish();
                None
            }
        };
        self.finish_if_ended();
        Poll::Ready(frame)
    }

    /// Counts a frame and passes it on. Of trailers, it keeps those that may be forwarded, without
    /// real values in them.
    fn pass(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, BodyError> {
        let data = frame.data_ref().map_or(&[][..], |data| data);
        if let Err(exceeded) = self.exchange.received(data) {
            // Nothing more of it is read.
            drop(self.lease.take());
            self.exchange.failed(format!("Budget: {}", exceeded.message()));
            return Err(exceeded.message().into());
        }
        self.exchange.downloaded(data.len());
        Ok(match (fit(frame, &[]).into_trailers(), &self.needles) {
            (Ok(trailers), Some(needles)) => {
                Frame::trailers(self.exchange.scrubbed_headers(needles, trailers))
            }
            (Ok(trailers), None) => Frame::trailers(trailers),
            (Err(frame), _) => frame,
        })
    }

    /// Gives the connection back as soon as the body has been read: hyper does not poll again.
    fn finish_if_ended(&mut self) {
        if self.body.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.finish();
        }
    }
}

impl Body for Download {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        match &mut self.get_mut().0 {
            Source::Upstream(upstream) => upstream.poll_frame(cx),
            Source::Page(page, exchange) => {
                let page = page.take();
                if let (Some(page), Some(exchange)) = (&page, exchange) {
                    exchange.downloaded(page.len());
                }
                Poll::Ready(page.map(|page| Ok(Frame::data(page))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Upstream(upstream) => upstream.body.is_end_stream(),
            Source::Page(page, _) => page.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Upstream(upstream) => upstream.body.size_hint(),
            Source::Page(page, _) => SizeHint::with_exact(page.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}
