//! What keeps the host safe from what a task writes in a work tree: protected paths of a mount, and copies that are applied later.

mod copy;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
mod git_config;
mod git_follow;
mod guards;
mod hold;
mod host_follow;
mod inventory;
mod judge;
mod known_files;
mod links;
mod planted;
mod protection;
mod quarantine;
mod sparse;
mod tree;
mod watch;

pub(crate) use copy::overlay_folders;
#[cfg(any(test, feature = "fuzzing"))]
pub use copy::workspace_copy;
pub use copy::{Applied, ApplyOptions, Change, ChangeKind, EntryKind, HeldBack, Versions, WorkspaceCopy};
pub use error::WorkspaceError;
pub(crate) use error::plain;
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzed::git_files;
pub(crate) use hold::Hold;
pub use planted::{Planted, PlantedKind};
pub use protection::Protection;
pub(crate) use tree::Tree;
