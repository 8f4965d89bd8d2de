//! What keeps the host safe from what a task writes in a work tree: protected paths of a mount, and copies that are applied later.
//!
//! A [`Mount`] says what of the host a task sees, and which of its paths are protected. A [`WorkspaceGuard`] keeps watch over the
//! mounts of one execution: what programs of the host would run or obey is mounted read-only, compared at the end, and what the task
//! tampered with is moved away and reported ([`TamperedPath`]). A [`WorkspaceCopy`] is a work tree that the task changes without changing it.
//! Nothing here knows a container or an engine.

mod copy;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod git_config;
mod git_follow;
mod guards;
mod host_follow;
mod invalid;
mod inventory;
mod judge;
mod known_files;
mod links;
mod mount;
mod names;
mod protection;
mod quarantine;
mod role;
mod sparse;
mod tampered;
mod watch;
mod workspace_guard;

pub use copy::{
    Applied, ApplyOptions, Change, ChangeKind, EntryKind, HeldBack, Versions, WorkspaceCopy, overlay_folders,
};
pub use error::{WorkspaceError, sanitized};
pub use invalid::InvalidSpec;
pub use mount::Mount;
pub use protection::Protection;
pub use tampered::{TamperKind, TamperedPath};
pub use workspace_guard::WorkspaceGuard;
