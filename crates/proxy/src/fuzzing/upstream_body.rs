//! The body of an answer as an upstream sends it, and the output of the scrubber.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use fuzz_input::pieces;
use http::HeaderMap;
use http_body::{Body, Frame};

use crate::scrub::{BodyScrub, Scrubbed};

/// Reading stops here: a few bytes may decode to an endless body.
const MOST_READ: usize = 256 * 1024;
/// The most that one step may yield beyond twice its input: a decoded piece, and the withheld
/// bytes.
const MOST_STEP: usize = 2 * (32 * 1024 + 8 * 1024);

/// Frames that are all available at once.
pub(super) struct Script {
    frames: VecDeque<Frame<Bytes>>,
    /// Whether the last frame is known to be the last.
    announced: bool,
}

impl Script {
    pub(super) fn new(data: &[u8], sizes: &[usize], trailers: Option<HeaderMap>, announced: bool) -> Self {
        let frames = pieces(data, sizes).into_iter().map(|piece| Frame::data(Bytes::copy_from_slice(piece)));
        Self { frames: frames.chain(trailers.map(Frame::trailers)).collect(), announced }
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frames.pop_front().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.announced && self.frames.is_empty()
    }
}

/// The complete output.
#[derive(PartialEq, Eq)]
pub(super) struct Received {
    pub(super) data: Vec<u8>,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) replaced: u32,
    pub(super) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Good,
    Failed,
    /// Reading stopped because the output was longer than [`MOST_READ`].
    Left,
}

/// Reads `sent`, processed according to `plan`.
pub(super) fn read(sent: Script, plan: BodyScrub) -> Received {
    let replaced = Arc::new(AtomicU32::new(0));
    let largest = sent.frames.iter().filter_map(Frame::data_ref).map(Bytes::len).max();
    let mut body = Scrubbed::new(sent, plan, Arc::clone(&replaced));
    let mut context = Context::from_waker(Waker::noop());
    let (mut data, mut trailers) = (Vec::new(), None);
    let end = loop {
        if body.is_end_stream() {
            break End::Good;
        }
        match Pin::new(&mut body).poll_frame(&mut context) {
            Poll::Pending => {}
            Poll::Ready(None) => break End::Good,
            Poll::Ready(Some(Err(_))) => break End::Failed,
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(piece) => {
                    assert!(!piece.is_empty(), "an empty frame");
                    assert!(
                        piece.len() <= MOST_STEP + 2 * largest.unwrap_or_default(),
                        "a frame of {} bytes",
                        piece.len()
                    );
                    data.extend_from_slice(&piece);
                    if data.len() > MOST_READ {
                        break End::Left;
                    }
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
    };
    if end == End::Failed {
        let polled = Pin::new(&mut body).poll_frame(&mut context);
        assert!(matches!(polled, Poll::Ready(None)), "something follows an error");
    }
    Received { data, trailers, replaced: replaced.load(Ordering::Relaxed), end }
}
