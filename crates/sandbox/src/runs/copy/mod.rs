//! Files of the host into a container: as links where they are links, and never the engine's own or
//! the host's folders.

mod destination;
mod source;
mod stream;

pub(super) use destination::Covered;
pub(super) use stream::copy;
