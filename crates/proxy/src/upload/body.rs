//! Streams a request's body to the upstream frame by frame: as it arrives, from a buffer, or signed
//! again.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderName;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, Sleep};

use super::buffer::{Buffered, STALL};
use super::inspect::{Beginning, Content};
use super::rewrite::{BodyError, PolledFrame, Rewrite, Rewritten, UploadError, UploadErrorSlot};
use crate::accounting::Spending;
use crate::git::Proof;
use crate::headers::trailers;
use crate::signing::ChunkSigner;

/// A request's body on its way to the upstream.
pub(crate) struct Upload {
    source: Source,
    rewritten: Option<Box<Rewritten>>,
    counter: UploadCounter,
    /// Names of trailers to drop, in addition to those that are always dropped.
    no_trailers: Vec<HeaderName>,
}

/// Counts the bytes sent of one body, for its record and against the budget.
pub(crate) struct UploadCounter {
    sent: Arc<AtomicU64>,
    spending: Option<Arc<Spending>>,
    error: UploadErrorSlot,
}

enum Source {
    /// A body that the client is sending.
    Client {
        /// The part that was read already.
        beginning: Option<Box<Beginning>>,
        incoming: Incoming,
        stall: Stall,
    },
    /// A body in memory.
    Buffer(Box<Buffered>),
}

/// Ends when a client has owed us a frame for [`STALL`]. Its timer is not set anew for each frame: it
/// ends at the earliest then.
#[derive(Default)]
struct Stall {
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    /// The client owes us nothing.
    fn clear(&mut self) {
        self.since = None;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = *self.since.get_or_insert_with(Instant::now) + STALL;
        // tidy: sleep: the deadline of a peer.
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}

impl Upload {
    /// Counts the bytes that pass in `counter`, and drops the trailers named in `no_trailers`.
    pub(crate) fn new(body: Content, counter: UploadCounter, no_trailers: Vec<HeaderName>) -> Self {
        let source = match body {
            Content::Unread(incoming) => {
                Source::Client { beginning: None, incoming, stall: Stall::default() }
            }
            Content::Begun(beginning, incoming) => {
                Source::Client { beginning: Some(beginning), incoming, stall: Stall::default() }
            }
            Content::Whole(body) => Source::Buffer(body),
        };
        Self { source, rewritten: None, counter, no_trailers }
    }

    /// The same for a body that was read already.
    pub(crate) fn buffered(
        body: Box<Buffered>,
        counter: UploadCounter,
        no_trailers: Vec<HeaderName>,
    ) -> Self {
        Self { source: Source::Buffer(body), rewritten: None, counter, no_trailers }
    }

    /// The body with its chunks signed again by `signer`, which takes `room`.
    pub(crate) fn signed(self, signer: Box<ChunkSigner>, room: OwnedSemaphorePermit) -> Self {
        self.rewritten(Rewrite::Sign { signer, signed: BytesMut::new() }, None, room)
    }

    /// The body, with its end withheld until `proof`, which takes `room`, is complete. The receiver
    /// closes once it is known whether the body was aborted.
    pub(crate) fn proving(
        self,
        proof: Box<Proof>,
        room: OwnedSemaphorePermit,
    ) -> (Self, oneshot::Receiver<Infallible>) {
        let (decided, receiver) = oneshot::channel();
        let rewrite = Rewrite::Prove { proof, data: Bytes::new(), tired: false };
        (self.rewritten(rewrite, Some(decided), room), receiver)
    }

    fn rewritten(
        mut self,
        rewrite: Rewrite,
        decided: Option<oneshot::Sender<Infallible>>,
        room: OwnedSemaphorePermit,
    ) -> Self {
        let error = Arc::clone(&self.counter.error);
        self.rewritten = Some(Box::new(Rewritten::new(rewrite, error, decided, room)));
        self
    }
}

impl UploadCounter {
    /// Counts in `sent` and against `spending`; reports in `error` that the budget is exceeded.
    pub(crate) fn new(sent: Arc<AtomicU64>, spending: Option<Arc<Spending>>, error: UploadErrorSlot) -> Self {
        Self { sent, spending, error }
    }

    /// Counts bytes that are about to be sent.
    ///
    /// # Errors
    ///
    /// If they exceed the budget: the body ends there.
    fn count(&self, bytes: u64) -> Result<(), BodyError> {
        if let Some(Err(denial)) = self.spending.as_ref().map(|spending| spending.send(bytes)) {
            let error = UploadError::Refused(denial);
            let body_error = error.body_error();
            let _ = self.error.set(error);
            return Err(body_error);
        }
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Source {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> PolledFrame {
        let (beginning, incoming, stall) = match self {
            Self::Buffer(buffered) => return Poll::Ready(buffered.next_frame().map(Ok)),
            Self::Client { beginning, incoming, stall } => (beginning, incoming, stall),
        };
        if let Some(beginning) = beginning.take() {
            return Poll::Ready(Some(Ok(Frame::data(beginning.data))));
        }
        if let Poll::Ready(frame) = Pin::new(incoming).poll_frame(cx) {
            stall.clear();
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        ready!(stall.poll(cx));
        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::TimedOut).into())))
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let this = self.get_mut();
        let source = &mut this.source;
        let frame = match &mut this.rewritten {
            None => ready!(source.poll_frame(cx)),
            Some(rewritten) => ready!(rewritten.poll_frame(cx, |cx| source.poll_frame(cx))),
        };
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref())
            && let Err(exceeded) = this.counter.count(data.len() as u64)
        {
            return Poll::Ready(Some(Err(exceeded)));
        }
        Poll::Ready(frame.map(|frame| frame.map(|frame| fit(frame, &this.no_trailers))))
    }

    fn is_end_stream(&self) -> bool {
        match (&self.rewritten, &self.source) {
            (Some(rewritten), _) => rewritten.is_end_stream(),
            (None, Source::Client { beginning, incoming, .. }) => {
                beginning.is_none() && incoming.is_end_stream()
            }
            (None, Source::Buffer(buffered)) => buffered.is_end_stream(),
        }
    }

    /// A recomputed signature is as long as the original one.
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

/// A frame without the trailers that must not be forwarded.
pub(crate) fn fit(frame: Frame<Bytes>, no_trailers: &[HeaderName]) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(received) => Frame::trailers(trailers(&received, no_trailers)),
        Err(frame) => frame,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stall_after_earlier_frames_lasts_its_whole_time() {
        let mut stall = Stall::default();
        for _ in 0..3 {
            assert!(poll_fn(|cx| Poll::Ready(stall.poll(cx))).await.is_pending());
            tokio::time::advance(STALL * 2 / 3).await;
            stall.clear();
        }
        let began = Instant::now();
        poll_fn(|cx| stall.poll(cx)).await;
        let waited = began.elapsed();
        assert!(waited >= STALL && waited < STALL + Duration::from_secs(1), "{waited:?}");
    }
}
