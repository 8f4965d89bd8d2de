//! A body whose chunks are signed again as they pass: at most one chunk of it waits here.

use std::error::Error;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::sync::OwnedSemaphorePermit;

use super::fault::{Fault, UploadFault};
use crate::signing::{ChunkError, ChunkSigner, MAX_CHUNK};

/// What one such body may hold: a chunk as it came and as it goes.
#[expect(clippy::cast_possible_truncation, reason = "two megabytes")]
pub(crate) const ROOM: u32 = 2 * MAX_CHUNK as u32;

/// Errors of bodies, in the form that hyper takes.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// The signer of one body.
pub(crate) struct ChunkSigning {
    signer: ChunkSigner,
    signed: BytesMut,
    state: State,
    fault: UploadFault,
    _room: OwnedSemaphorePermit,
}

/// How far the body is.
enum State {
    /// There may be more of it.
    Open,
    /// Only these trailers are left.
    Trailers(Frame<Bytes>),
    /// Nothing is left.
    Done,
}

impl ChunkSigning {
    /// Signs with `signer`; a failure is reported in `fault`.
    pub(crate) fn new(signer: ChunkSigner, fault: UploadFault, room: OwnedSemaphorePermit) -> Self {
        Self { signer, signed: BytesMut::new(), state: State::Open, fault, _room: room }
    }

    /// The next frame of the body whose frames `source` gives.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        mut source: impl FnMut(&mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if !self.signed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(self.signed.split().freeze()))));
            }
            match std::mem::replace(&mut self.state, State::Done) {
                State::Open => self.state = State::Open,
                State::Trailers(trailers) => return Poll::Ready(Some(Ok(trailers))),
                State::Done => return Poll::Ready(None),
            }
            let pushed = match ready!(source(cx)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.finish(State::Done),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.signer.push(&data, &mut self.signed),
                    Err(trailers) => self.finish(State::Trailers(trailers)),
                },
            };
            if let Err(error) = pushed {
                let failure = std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string());
                // The first fault is the one to report.
                let _ = self.fault.set(Fault::Chunk(error));
                return Poll::Ready(Some(Err(failure.into())));
            }
        }
    }

    /// Whether all of it was sent.
    pub(crate) fn is_end_stream(&self) -> bool {
        self.signed.is_empty() && matches!(self.state, State::Done)
    }

    fn finish(&mut self, then: State) -> Result<(), ChunkError> {
        self.state = then;
        self.signer.finish(&mut self.signed)
    }
}
