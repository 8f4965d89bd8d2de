#![doc = include_str!("../README.md")]

mod copy;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod git_config;
mod git_follow;
mod git_identity;
mod git_index;
mod guards;
mod host_follow;
mod invalid;
mod inventory;
mod judge;
mod known_files;
mod links;
mod mount;
mod names;
mod outside;
mod protection;
mod quarantine;
mod role;
mod sparse;
mod tampered;
mod watch;
mod workspace_guard;
mod worktrees;

pub use copy::{
    Applied, ApplyOptions, Change, ChangeKind, EntryKind, GitChanges, HeldBack, RepositoryChanges, Versions,
    WaitingSetting, WorkspaceCopy, overlay_folders,
};
pub use error::{WorkspaceError, sanitized};
pub use git_identity::{GitIdentity, git_configurations};
pub use invalid::InvalidSpec;
pub use mount::Mount;
pub use outside::{OutsideRepository, OutsideRepositoryError};
pub use protection::Protection;
pub use sandbox_host_git::{
    Error as ImportError, Left, RefChange, RefOutcome, Report as ImportReport, SettingChange,
};
pub use tampered::{TamperKind, TamperedPath};
pub use workspace_guard::WorkspaceGuard;
