//! A push whose last bytes wait for the proof that it loses no commit. All others pass as they come.

use std::convert::Infallible;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::chunk_signing::BodyError;
use super::fault::{Fault, UploadFault};
use crate::git::Proof;
use crate::policy::Blocked;

/// Bytes that are inflated before other requests have their turn.
const EFFORT: usize = 1024 * 1024;

/// The proof for one body.
pub(crate) struct Proving {
    proof: Proof,
    /// What has come and was not read.
    data: Bytes,
    state: State,
    /// Others have their turn first.
    tired: bool,
    fault: UploadFault,
    /// Its end is that of the proof.
    decided: Option<oneshot::Sender<Infallible>>,
    _room: OwnedSemaphorePermit,
}

enum State {
    /// There may be more of the body.
    Open,
    /// Only these trailers are left.
    Trailers(Frame<Bytes>),
    /// Nothing is left.
    Done,
}

impl Proving {
    /// Reports a failure in `fault`, and ends the receiver when it is known whether there is one.
    pub(crate) fn new(
        proof: Proof,
        fault: UploadFault,
        room: OwnedSemaphorePermit,
    ) -> (Self, oneshot::Receiver<Infallible>) {
        let (decided, receiver) = oneshot::channel();
        let (state, data) = (State::Open, Bytes::new());
        (Self { proof, data, state, tired: false, fault, decided: Some(decided), _room: room }, receiver)
    }

    /// The next frame of the body whose frames `source` gives.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        mut source: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if std::mem::take(&mut self.tired) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match std::mem::replace(&mut self.state, State::Done) {
                State::Open => self.state = State::Open,
                State::Trailers(trailers) => return Poll::Ready(Some(Ok(trailers))),
                State::Done => return Poll::Ready(None),
            }
            if !self.data.is_empty() {
                let mut effort = EFFORT;
                match self.proof.read(&mut self.data, &mut effort) {
                    Ok(passed) => {
                        self.tired = effort == 0;
                        if !passed.is_empty() {
                            return Poll::Ready(Some(Ok(Frame::data(passed))));
                        }
                    }
                    Err(denial) => return self.fail(denial),
                }
                continue;
            }
            let end = match ready!(source(cx)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => State::Done,
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.data = data;
                        continue;
                    }
                    Err(trailers) => State::Trailers(trailers),
                },
            };
            self.state = end;
            return match self.proof.finish() {
                Ok(checksum) => {
                    self.decided = None;
                    Poll::Ready(Some(Ok(Frame::data(checksum))))
                }
                Err(denial) => self.fail(denial),
            };
        }
    }

    /// Whether all of it was sent.
    pub(crate) fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Breaks the body off.
    fn fail(&mut self, denial: Blocked) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.state = State::Done;
        // The first fault is the one to report.
        let _ = self.fault.set(Fault::Refused(denial));
        self.decided = None;
        Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::InvalidData).into())))
    }
}
