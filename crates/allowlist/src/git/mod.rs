//! Repositories: requests of git's smart HTTP, and the refs that a push may update.
//!
//! Invariant: a request that could push is recognized in any spelling; an allowed one has the
//! spelling of git itself.

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
pub(crate) use ref_name::is_forbidden as is_forbidden_in_refs;
pub use rule::GitRule;
pub use rule::RefPattern;
pub(crate) use service::Service;
pub(crate) use service::could_push;
pub(crate) use service::covers;
