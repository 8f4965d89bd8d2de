//! Why a body was broken off on its way.

use std::sync::{Arc, OnceLock};

use crate::policy::Blocked;
use crate::signing::ChunkError;

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
