//! Bodies whose data is changed, or held back, on its way: the frames around it are the same for
//! every such body.

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

/// What a body gives when it is polled.
pub(crate) type PolledFrame = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

/// Why a body was broken off, for the response to the client.
pub(crate) type UploadFault = Arc<OnceLock<Fault>>;

/// A fault that was found while a body was sent.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A chunk could not be signed.
    Chunk(ChunkError),
    /// What was found in it is refused, or it exceeds the budget.
    Refused(Blocked),
}

/// What one body whose chunks are signed may hold: a chunk as it came and as it goes.
#[expect(clippy::cast_possible_truncation, reason = "two megabytes")]
pub(crate) const CHUNK_ROOM: u32 = 2 * MAX_CHUNK as u32;
/// Bytes of a push that are inflated before other requests have their turn.
const EFFORT: usize = 1024 * 1024;

/// What becomes of the data of one body.
pub(super) enum Rewrite {
    /// Its chunks are signed again as they pass: at most one chunk of it waits here.
    Sign { signer: Box<ChunkSigner>, signed: BytesMut },
    /// The last bytes of a push wait for the proof that it loses no commit. All others pass as they
    /// come.
    Prove {
        proof: Box<Proof>,
        /// What has come and was not read.
        data: Bytes,
        /// Others have their turn first.
        tired: bool,
    },
}

impl Rewrite {
    /// Takes the data that follows; what can be sent now.
    fn push(&mut self, more: Bytes) -> Result<Bytes, Fault> {
        match self {
            Self::Sign { signer, signed } => {
                signer.push(&more, signed).map_err(Fault::Chunk)?;
                Ok(signed.split().freeze())
            }
            Self::Prove { data, .. } => {
                *data = more;
                Ok(Bytes::new())
            }
        }
    }

    /// What else can be sent of the data that was taken, nothing where it is held back; `None` if
    /// more must come first.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Fault>>> {
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
        Poll::Ready(Some(passed.map_err(Fault::Refused)))
    }

    /// What is left to send when the body has ended.
    fn finish(&mut self) -> Result<Bytes, Fault> {
        match self {
            Self::Sign { signer, signed } => {
                signer.finish(signed).map_err(Fault::Chunk)?;
                Ok(signed.split().freeze())
            }
            Self::Prove { proof, .. } => proof.finish().map_err(Fault::Refused),
        }
    }
}

/// A body on its way through a [`Rewrite`].
pub(super) struct Rewritten {
    rewrite: Rewrite,
    state: State,
    fault: UploadFault,
    /// Its end is when it is known whether there is a fault.
    decided: Option<oneshot::Sender<Infallible>>,
    _room: OwnedSemaphorePermit,
}

/// How far a body is.
enum State {
    /// There may be more of it.
    Open,
    /// Only these trailers are left.
    Trailers(Frame<Bytes>),
    /// Nothing is left.
    Done,
}

impl Rewritten {
    /// Reports a failure in `fault`, and drops `decided` when it is known whether there is one.
    pub(super) fn new(
        rewrite: Rewrite,
        fault: UploadFault,
        decided: Option<oneshot::Sender<Infallible>>,
        room: OwnedSemaphorePermit,
    ) -> Self {
        Self { rewrite, state: State::Open, fault, decided, _room: room }
    }

    /// The next frame of the body whose frames `source` gives.
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
                Err(fault) => return self.fail(fault),
            }
        }
    }

    /// Whether all of it was sent.
    pub(super) fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Breaks the body off.
    fn fail(&mut self, fault: Fault) -> PolledFrame {
        self.state = State::Done;
        let error = fault.error();
        // The first fault is the one to report, and it is there before anyone hears that there may
        // be one.
        let _ = self.fault.set(fault);
        self.decided = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl Fault {
    /// The error that ends the body.
    pub(super) fn error(&self) -> BodyError {
        match self {
            Self::Chunk(error) => error.to_string().into(),
            Self::Refused(denial) => denial.message().into(),
        }
    }
}
