//! Bodies of requests on their way to the upstream: sent as they arrive, read to their end, or
//! signed again chunk by chunk.

mod body;
mod buffer;
mod inspect;
mod rewrite;

pub(crate) use body::{Upload, UploadCounter, fit};
pub(crate) use buffer::{BufferError, Buffered, DrainedBody, ROOM, buffer, room};
pub(crate) use inspect::{Content, Decided, RequestBody, Undecided, inspect};
pub(crate) use rewrite::{BodyError, CHUNK_ROOM, PolledFrame, UploadError, UploadErrorSlot};
