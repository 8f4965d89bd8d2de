//! Repositories: what git's smart HTTP asks for, and which refs a push may update.
//!
//! Invariant: a request that could push is recognized as such however it is spelled; one that is
//! allowed is spelled as git spells it.

mod packet;
mod push;
mod ref_name;
mod rule;
mod service;

pub use push::FastForward;
pub(crate) use push::LIMIT;
pub(crate) use push::PushCheck;
pub use push::PushReader;
pub use push::Pushes;
pub use push::RefUpdate;
pub use rule::GitRule;
pub use rule::RefPattern;
pub(crate) use service::Service;
pub(crate) use service::could_push;
pub(crate) use service::covers;
