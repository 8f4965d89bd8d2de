//! Bodies that are read to their end: those whose hash a signature needs, and those of refused
//! requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::headers::expects_continue;

/// Maximum bytes of one buffered body.
pub(crate) const LARGEST: u32 = 16 * 1024 * 1024;
/// Maximum bytes of all bodies held for signing, over all requests.
pub(crate) const ROOM: usize = 64 * 1024 * 1024;
/// A client that begins a body and then sends none of it for this long has abandoned it.
pub(super) const STALL: Duration = Duration::from_mins(5);
/// How long a body may wait for room: others may take this long to be sent.
const WAIT: Duration = Duration::from_secs(30);

/// How much of a refused body is read, and for how long, so that the client gets the refusal
/// instead of a reset.
const DRAINED: usize = 1024 * 1024;
const DRAIN: Duration = Duration::from_secs(5);
/// The same for a push: git reads the response when it has sent its pack.
const PACK_DRAINED: usize = 1024 * 1024 * 1024;
const PACK_DRAIN: Duration = Duration::from_mins(5);

/// A body in memory. It frees its room when it is dropped.
pub(crate) struct Buffered {
    data: Bytes,
    trailers: Option<HeaderMap>,
    /// Whether the client sent a different body.
    replaced: bool,
    _room: OwnedSemaphorePermit,
}

/// Why a body cannot be buffered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferError {
    /// It has more than [`LARGEST`] bytes.
    TooLarge,
    /// There was no room for it in time.
    Full,
    /// The client stopped sending it.
    Stalled,
    /// It ended early, or is malformed.
    Broken,
}

/// Waits for room for this many bytes.
pub(crate) async fn room(bytes: u32, room: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, BufferError> {
    match timeout(WAIT, Arc::clone(room).acquire_many_owned(bytes)).await {
        Ok(Ok(room)) => Ok(room),
        Ok(Err(_)) | Err(_) => Err(BufferError::Full),
    }
}

/// Reads `body` to its end. A body that declares too large a size is refused before any of it is
/// read; `drained` depends on whether the client sends it anyway.
pub(crate) async fn buffer(
    mut body: Incoming,
    all_room: &Arc<Semaphore>,
    drained: DrainedBody,
) -> Result<Buffered, BufferError> {
    let declared = match body.size_hint().exact() {
        None => LARGEST,
        Some(bytes) => match u32::try_from(bytes) {
            Ok(bytes) if bytes <= LARGEST => bytes,
            _ => {
                drained.drain(body);
                return Err(BufferError::TooLarge);
            }
        },
    };
    // Before the first frame is polled, which sends `100 Continue` to a client that waits for it.
    let room = match room(declared, all_room).await {
        Ok(room) => room,
        Err(error) => {
            drained.drain(body);
            return Err(error);
        }
    };
    let mut data = BytesMut::new();
    let mut trailers = None;
    loop {
        let frame = match timeout(STALL, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => return Err(BufferError::Broken),
            Err(_elapsed) => return Err(BufferError::Stalled),
        };
        match frame.into_data() {
            Ok(bytes) if data.len() + bytes.len() > LARGEST as usize => {
                DrainedBody::Short.drain(body);
                return Err(BufferError::TooLarge);
            }
            Ok(bytes) => data.extend_from_slice(&bytes),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    Ok(Buffered::new(data.freeze(), trailers, room))
}

impl Buffered {
    /// A body that was read to its end, and takes `room`.
    pub(super) fn new(data: Bytes, trailers: Option<HeaderMap>, room: OwnedSemaphorePermit) -> Self {
        Self { data, trailers, replaced: false, _room: room }
    }

    /// Marks it as the replacement of the body that the client sent.
    pub(super) fn in_place(self) -> Self {
        Self { replaced: true, ..self }
    }

    /// Its length, if it is not the body that the client sent.
    pub(super) fn replaced_length(&self) -> Option<u64> {
        self.replaced.then_some(self.data.len() as u64)
    }

    /// The hash that signatures cover.
    pub(crate) fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.data).into()
    }

    pub(crate) fn next_frame(&mut self) -> Option<Frame<Bytes>> {
        if self.data.is_empty() {
            return self.trailers.take().map(Frame::trailers);
        }
        Some(Frame::data(std::mem::take(&mut self.data)))
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.len() as u64)
    }
}

/// How much of the body of a refused request is still read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrainedBody {
    /// The client is sending it: it is read for a while, so that the client gets to read the
    /// refusal.
    Short,
    /// git is sending a pack.
    Pack,
    /// Nothing: the client waits for `100 Continue`, which it does not get.
    Unsent,
}

impl DrainedBody {
    /// For a request with these headers.
    pub(crate) fn for_request(headers: &HeaderMap) -> Self {
        if expects_continue(headers) { Self::Unsent } else { Self::Short }
    }

    pub(crate) fn drain(self, body: Incoming) {
        match self {
            Self::Short => drain(body, DRAINED, DRAIN),
            Self::Pack => drain(body, PACK_DRAINED, PACK_DRAIN),
            Self::Unsent => {}
        }
    }
}

/// Reads and discards the rest of a refused request, within limits.
fn drain(body: Incoming, bytes: usize, time: Duration) {
    if body.is_end_stream() {
        return;
    }
    let mut body = Limited::new(body, bytes);
    tokio::spawn(timeout(time, async move { while let Some(Ok(_)) = body.frame().await {} }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn room_is_shared_by_all_bodies() {
        let all = Arc::new(Semaphore::new(ROOM));
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(room(LARGEST, &all).await.unwrap());
        }
        let began = tokio::time::Instant::now();
        assert_eq!(room(1, &all).await.unwrap_err(), BufferError::Full);
        assert!(began.elapsed() >= WAIT);
        held.pop();
        assert!(room(LARGEST, &all).await.is_ok());
    }

    #[tokio::test]
    async fn buffered_body_yields_one_piece_and_its_trailers() {
        let all = Arc::new(Semaphore::new(8));
        let trailers = HeaderMap::from_iter([(http::header::ETAG, http::HeaderValue::from_static("x"))]);
        let mut body = Buffered {
            data: Bytes::from_static(b"abc"),
            trailers: Some(trailers.clone()),
            replaced: false,
            _room: room(8, &all).await.unwrap(),
        };
        let hash = body.sha256();
        assert_eq!(hash.get(..4), Some([0xba, 0x78, 0x16, 0xbf].as_slice()));
        assert_eq!(body.size_hint().exact(), Some(3));
        assert!(!body.is_end_stream());
        assert_eq!(body.next_frame().unwrap().into_data().unwrap(), "abc");
        assert_eq!(body.next_frame().unwrap().into_trailers().unwrap(), trailers);
        assert!(body.is_end_stream() && body.next_frame().is_none());
        drop(body);
        assert_eq!(all.available_permits(), 8);
    }
}
