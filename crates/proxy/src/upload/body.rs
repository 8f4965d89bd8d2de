//! A request's body on its way to the upstream, frame by frame: as it comes, from a buffer, or signed again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderName;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::buffer::{Buffered, STALL};
use super::chunk_signing::{BodyError, ChunkSigning};
use super::counter::UploadCounter;
use super::inspect::{Beginning, Content};
use super::proving::Proving;
use crate::headers::trailers;

/// A request's body on its way to the upstream.
pub(crate) struct Upload {
    source: Source,
    change: Option<Change>,
    counter: UploadCounter,
    /// What no trailer may be called, beside what none may ever be.
    no_trailers: Vec<HeaderName>,
}

/// What becomes of a body on its way.
enum Change {
    Signing(Box<ChunkSigning>),
    Proving(Box<Proving>),
}

enum Source {
    /// What the client sends.
    Client {
        /// What it has sent already.
        beginning: Option<Box<Beginning>>,
        incoming: Incoming,
        /// Set while the client owes us a frame.
        stall: Option<Pin<Box<Sleep>>>,
    },
    /// What the client has sent.
    Buffer(Box<Buffered>),
}

impl Upload {
    /// Counts what goes through in `counter`; no trailer is called as in `no_trailers`.
    pub(crate) fn new(body: Content, counter: UploadCounter, no_trailers: Vec<HeaderName>) -> Self {
        let source = match body {
            Content::Unread(incoming) => Source::Client { beginning: None, incoming, stall: None },
            Content::Begun(beginning, incoming) => {
                Source::Client { beginning: Some(beginning), incoming, stall: None }
            }
            Content::Whole(body) => Source::Buffer(body),
        };
        Self { source, change: None, counter, no_trailers }
    }

    /// The same, with a body that was read already.
    pub(crate) fn buffered(
        body: Box<Buffered>,
        counter: UploadCounter,
        no_trailers: Vec<HeaderName>,
    ) -> Self {
        Self { source: Source::Buffer(body), change: None, counter, no_trailers }
    }

    /// The body with its chunks signed again.
    pub(crate) fn signed(mut self, signing: ChunkSigning) -> Self {
        self.change = Some(Change::Signing(Box::new(signing)));
        self
    }

    /// The body whose end waits for a proof.
    pub(crate) fn proving(mut self, proving: Proving) -> Self {
        self.change = Some(Change::Proving(Box::new(proving)));
        self
    }
}

impl Source {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let (beginning, incoming, stall) = match self {
            Self::Buffer(buffered) => return Poll::Ready(buffered.next_frame().map(Ok)),
            Self::Client { beginning, incoming, stall } => (beginning, incoming, stall),
        };
        if let Some(beginning) = beginning.take() {
            return Poll::Ready(Some(Ok(Frame::data(beginning.data))));
        }
        if let Poll::Ready(frame) = Pin::new(incoming).poll_frame(cx) {
            *stall = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        // tidy: sleep: the deadline of a peer.
        let stall = stall.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + STALL)));
        ready!(stall.as_mut().poll(cx));
        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
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
        let source = &mut this.source;
        let frame = match &mut this.change {
            None => ready!(source.poll_frame(cx)),
            Some(Change::Signing(signing)) => ready!(signing.poll_frame(cx, |cx| source.poll_frame(cx))),
            Some(Change::Proving(proving)) => ready!(proving.poll_frame(cx, |cx| source.poll_frame(cx))),
        };
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref())
            && let Err(exceeded) = this.counter.count(data.len() as u64)
        {
            return Poll::Ready(Some(Err(exceeded)));
        }
        Poll::Ready(frame.map(|frame| frame.map(|frame| fit(frame, &this.no_trailers))))
    }

    fn is_end_stream(&self) -> bool {
        match (&self.change, &self.source) {
            (Some(Change::Signing(signing)), _) => signing.is_end_stream(),
            (Some(Change::Proving(proving)), _) => proving.is_end_stream(),
            (None, Source::Client { beginning, incoming, .. }) => {
                beginning.is_none() && incoming.is_end_stream()
            }
            (None, Source::Buffer(buffered)) => buffered.is_end_stream(),
        }
    }

    /// A recomputed signature is as long as the one before.
    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Client { beginning: None, incoming, .. } => incoming.size_hint(),
            Source::Client { beginning: Some(beginning), incoming, .. } => {
                let (sent, rest) = (beginning.data.len() as u64, incoming.size_hint());
                rest.exact()
                    .map_or_else(SizeHint::default, |rest| SizeHint::with_exact(sent.saturating_add(rest)))
            }
            Source::Buffer(buffered) => buffered.size_hint(),
        }
    }
}

/// A frame without the trailers that must not travel.
pub(crate) fn fit(frame: Frame<Bytes>, no_trailers: &[HeaderName]) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(received) => Frame::trailers(trailers(&received, no_trailers)),
        Err(frame) => frame,
    }
}
