//! Bodies of requests on their way to the upstream: as they come, read to their end, or signed again chunk by chunk.

mod body;
mod buffer;
mod chunk_signing;
mod inspect;

pub(crate) use body::{Upload, fit};
pub(crate) use buffer::{BufferFault, ROOM, Unwanted, buffer, room};
pub(crate) use chunk_signing::{BodyError, ChunkFault, ChunkSigning, ROOM as CHUNK_ROOM};
pub(crate) use inspect::{Decided, RequestBody, Undecided, inspect};
