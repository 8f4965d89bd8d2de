//! Bodies that determine whether their requests are permitted: as much of them is read as the
//! decision needs, and nothing is sent before it.

use std::sync::Arc;

use allowlist::Pushes;
use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::buffer::{BufferError, Buffered, DrainedBody, STALL, room};

/// The body of a permitted request.
pub(crate) struct RequestBody {
    pub(crate) content: Content,
    /// Pushes that must be proven before its end is sent.
    pub(crate) pushes: Option<Box<Pushes>>,
}

/// The content of a body.
pub(crate) enum Content {
    /// None of it was read.
    Unread(Incoming),
    /// All of it was read, or it is replaced.
    Whole(Box<Buffered>),
    /// Its beginning was read.
    Begun(Box<Beginning>, Incoming),
}

/// The beginning of a body. It takes room until it is sent.
pub(crate) struct Beginning {
    pub(super) data: Bytes,
    _room: OwnedSemaphorePermit,
}

/// Why a request gets no permit.
#[derive(Debug)]
pub(crate) enum Undecided<E> {
    /// The content of its body is not allowed; the rest of the body was not read.
    Denied(E, Incoming),
    /// Its body cannot be read.
    Unread(BufferError),
}

/// A positive decision on a request.
pub(crate) struct Decided<T> {
    pub(crate) found: T,
    /// The data to send instead of the body.
    pub(crate) replacement: Option<Vec<u8>>,
    /// Pushes that must be proven before its end is sent.
    pub(crate) pushes: Option<Pushes>,
}

/// Reads `body` until `look` has decided, but no more than `limit` bytes and a frame. `look` gets
/// all the data received so far, and whether the body has ended. `drained` depends on whether the
/// client sends the body without `100 Continue`.
pub(crate) async fn inspect<T, E>(
    mut body: Incoming,
    limit: usize,
    all_room: &Arc<Semaphore>,
    drained: DrainedBody,
    mut look: impl FnMut(&[u8], bool) -> Result<Option<Decided<T>>, E>,
) -> Result<(T, RequestBody), Undecided<E>> {
    let declared = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(limit);
    let bytes = u32::try_from(declared.min(limit)).unwrap_or(u32::MAX);
    // Before the first frame is polled, which sends `100 Continue` to a client that waits for it.
    let room = match room(bytes, all_room).await {
        Ok(room) => room,
        Err(error) => {
            drained.drain(body);
            return Err(Undecided::Unread(error));
        }
    };
    let (mut data, mut trailers, mut ended) = (BytesMut::new(), None, false);
    let decided = loop {
        match look(&data, ended) {
            Ok(Some(decided)) => break decided,
            Ok(None) if ended => return Err(Undecided::Unread(BufferError::Broken)),
            Ok(None) if data.len() > limit => {
                DrainedBody::Short.drain(body);
                return Err(Undecided::Unread(BufferError::TooLarge));
            }
            Ok(None) => {}
            Err(denial) => return Err(Undecided::Denied(denial, body)),
        }
        let frame = match timeout(STALL, body.frame()).await {
            Ok(None) => {
                ended = true;
                continue;
            }
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => return Err(Undecided::Unread(BufferError::Broken)),
            Err(_elapsed) => return Err(Undecided::Unread(BufferError::Stalled)),
        };
        match frame.into_data() {
            Ok(bytes) => data.extend_from_slice(&bytes),
            Err(frame) => {
                trailers = frame.into_trailers().ok();
                ended = true;
            }
        }
    };
    let content = match decided.replacement {
        Some(replacement) => {
            // The rest is not forwarded, but a client that cannot write it never reads the
            // response.
            DrainedBody::Short.drain(body);
            Content::Whole(Box::new(Buffered::new(replacement.into(), trailers, room).in_place()))
        }
        None if ended => Content::Whole(Box::new(Buffered::new(data.freeze(), trailers, room))),
        None => Content::Begun(Box::new(Beginning { data: data.freeze(), _room: room }), body),
    };
    Ok((decided.found, RequestBody { content, pushes: decided.pushes.map(Box::new) }))
}

impl RequestBody {
    /// A body of which nothing was read yet.
    pub(crate) fn unread(body: Incoming) -> Self {
        Self { content: Content::Unread(body), pushes: None }
    }
}

impl Content {
    /// Whether the body is empty.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Unread(body) => body.is_end_stream(),
            Self::Whole(body) => body.is_end_stream(),
            Self::Begun(..) => false,
        }
    }

    /// Its length, if it is not the body that the client sent.
    pub(crate) fn replaced_length(&self) -> Option<u64> {
        match self {
            Self::Whole(body) => body.replaced_length(),
            Self::Unread(_) | Self::Begun(..) => None,
        }
    }

    /// Drains the unread part of a body that is not forwarded after all.
    pub(crate) fn drain(self, drained: DrainedBody) {
        match self {
            Self::Unread(body) => drained.drain(body),
            Self::Whole(_) => {}
            Self::Begun(_, rest) => DrainedBody::Short.drain(rest),
        }
    }
}
