//! Copies files of the host into a container: links are copied as links, and folders of the engine
//! or the host are never written.

mod destination;
mod source;
mod stream;

pub(super) use destination::Covered;
pub(super) use stream::copy;
