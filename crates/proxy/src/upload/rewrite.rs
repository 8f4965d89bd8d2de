//! Bodies whose data is changed or withheld on its way; the handling of their frames is the same
//! for all of them.

use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::git::Proof;
use crate::policy::Blocked;
use crate::signing::{ChunkError, ChunkSigner, MAX_CHUNK};

/// Errors of bodies, in the form that hyper takes.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// The result of polling a body.
pub(crate) type PolledFrame = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

/// Why a body was aborted, for the response to the client.
pub(crate) type UploadErrorSlot = Arc<OnceLock<UploadError>>;

/// A problem found while a body was sent.
#[derive(Debug)]
pub(crate) enum UploadError {
    /// A chunk could not be signed.
    Chunk(ChunkError),
    /// Its content is refused, or it exceeds the budget.
    Refused(Blocked),
}

/// Bytes that one body whose chunks are signed may hold: a chunk as received and as sent.
#[expect(clippy::cast_possible_truncation, reason = "two megabytes")]
pub(crate) const CHUNK_ROOM: u32 = 2 * MAX_CHUNK as u32;
/// Bytes of a push that are inflated before other requests get their turn.
const EFFORT: usize = 1024 * 1024;

/// How the data of one body is rewritten.
pub(super) enum Rewrite {
    /// Its chunks are signed again as they pass: at most one chunk is held here.
    Sign { signer: Box<ChunkSigner>, signed: BytesMut },
    /// The last bytes of a push are withheld until it is proven that the push loses no commit. All
    /// others pass as they arrive.
    Prove {
        proof: Box<Proof>,
        /// Data that has arrived and was not read yet.
        data: Bytes,
        /// Whether other requests get their turn first.
        tired: bool,
    },
}

impl Rewrite {
    /// Takes more data. Returns the data that can be sent now.
    fn push(&mut self, more: Bytes) -> Result<Bytes, UploadError> {
        match self {
            Self::Sign { signer, signed } => {
                signer.push(&more, signed).map_err(UploadError::Chunk)?;
                Ok(signed.split().freeze())
            }
            Self::Prove { data, .. } => {
                *data = more;
                Ok(Bytes::new())
            }
        }
    }

    /// Returns more of the data taken that can be sent, which is empty while data is withheld;
    /// `None` if more data must arrive first.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, UploadError>>> {
        let Self::Prove { proof, data, tired } = self else { return Poll::Ready(None) };
        if std::mem::take(tired) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if data.is_empty() {
            return Poll::Ready(None);
        }
        let mut effort = EFFORT;
        let passed = proof.read(data, &mut effort);
        *tired = effort == 0;
        Poll::Ready(Some(passed.map_err(UploadError::Refused)))
    }

    /// Returns the data that is left to send when the body has ended.
    fn finish(&mut self) -> Result<Bytes, UploadError> {
        match self {
            Self::Sign { signer, signed } => {
                signer.finish(signed).map_err(UploadError::Chunk)?;
                Ok(signed.split().freeze())
            }
            Self::Prove { proof, .. } => proof.finish().map_err(UploadError::Refused),
        }
    }
}

/// A body on its way through a [`Rewrite`].
pub(super) struct Rewritten {
    rewrite: Rewrite,
    state: State,
    error: UploadErrorSlot,
    /// Dropped once it is known whether there is an error.
    decided: Option<oneshot::Sender<Infallible>>,
    _room: OwnedSemaphorePermit,
}

/// The progress of a body.
enum State {
    /// There may be more of it.
    Open,
    /// Only these trailers are left.
    Trailers(Frame<Bytes>),
    /// Nothing is left.
    Done,
}

impl Rewritten {
    /// Reports an error in `error`, and drops `decided` once it is known whether there is one.
    pub(super) fn new(
        rewrite: Rewrite,
        error: UploadErrorSlot,
        decided: Option<oneshot::Sender<Infallible>>,
        room: OwnedSemaphorePermit,
    ) -> Self {
        Self { rewrite, state: State::Open, error, decided, _room: room }
    }

    /// The next frame of the body whose frames `source` yields.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        mut source: impl FnMut(&mut Context<'_>) -> PolledFrame,
    ) -> PolledFrame {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Open => self.state = State::Open,
                State::Trailers(trailers) => return Poll::Ready(Some(Ok(trailers))),
                State::Done => return Poll::Ready(None),
            }
            let (sent, then) = match ready!(self.rewrite.poll_rest(cx)) {
                Some(sent) => (sent, State::Open),
                None => match ready!(source(cx)).transpose() {
                    Err(error) => return Poll::Ready(Some(Err(error))),
                    Ok(None) => (self.rewrite.finish(), State::Done),
                    Ok(Some(frame)) => match frame.into_data() {
                        Ok(data) => (self.rewrite.push(data), State::Open),
                        Err(trailers) => (self.rewrite.finish(), State::Trailers(trailers)),
                    },
                },
            };
            self.state = then;
            match sent {
                Ok(data) => {
                    if !matches!(self.state, State::Open) {
                        self.decided = None;
                    }
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                }
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Whether all of it was sent.
    pub(super) fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Aborts the body.
    fn fail(&mut self, error: UploadError) -> PolledFrame {
        self.state = State::Done;
        let body_error = error.body_error();
        // The first error is the one to report. It is set before the receiver of `decided` is
        // notified.
        let _ = self.error.set(error);
        self.decided = None;
        Poll::Ready(Some(Err(body_error)))
    }
}

impl UploadError {
    /// The error that ends the body.
    pub(super) fn body_error(&self) -> BodyError {
        match self {
            Self::Chunk(error) => error.to_string().into(),
            Self::Refused(denial) => denial.message().into(),
        }
    }
}
