//! Bodies of requests on their way to the upstream: as they come, read to their end, or signed again chunk by chunk.

mod body;
mod buffer;
mod chunk_signing;
mod counter;
mod fault;
mod inspect;
mod proving;

pub(crate) use body::{Upload, fit};
pub(crate) use buffer::{BufferFault, Buffered, ROOM, Unwanted, buffer, room};
pub(crate) use chunk_signing::{BodyError, ChunkSigning, ROOM as CHUNK_ROOM};
pub(crate) use counter::UploadCounter;
pub(crate) use fault::{Fault, UploadFault};
pub(crate) use inspect::{Content, Decided, RequestBody, Undecided, inspect};
pub(crate) use proving::Proving;
