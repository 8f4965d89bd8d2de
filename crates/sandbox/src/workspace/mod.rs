//! What keeps the host safe from what a task writes in a work tree: protected paths of a mount, and copies that are applied later.

mod copy;
mod error;
mod git_config;
mod hold;
mod inventory;
mod planted;
mod protection;
mod quarantine;
mod tree;
mod watch;

pub(crate) use copy::overlay_folders;
pub use copy::{Applied, ApplyOptions, Change, ChangeKind, EntryKind, HeldBack, Versions, WorkspaceCopy};
pub use error::WorkspaceError;
pub(crate) use error::plain;
pub(crate) use hold::Hold;
pub use planted::Planted;
pub use protection::Protection;
