#![doc = include_str!("../README.md")]

mod copy;
mod error;
mod fingerprint;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod git_config;
mod git_follow;
mod git_identity;
mod git_view;
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
mod overlay;
mod path_text;
mod protection;
mod quarantine;
mod record;
mod removal;
mod role;
mod sparse;
mod tampered;
mod trash;
mod tree_files;
#[cfg(test)]
mod unprivileged;
mod watch;
mod workspace_guard;

pub use copy::{Applied, ApplyOptions, Change, ChangeKind, EntryKind, Versions, Withheld, WorkspaceCopy};
pub use error::{WorkspaceError, sanitized};
pub use git_config::git_credentials;
pub use git_identity::{GitIdentity, git_configurations};
pub use git_view::{FailedImport, GitChanges, Patience, RepositoryChanges, WaitingSetting};
pub use invalid::InvalidSpec;
pub use mount::Mount;
pub use outside::{OutsideRepository, OutsideRepositoryError};
pub use overlay::overlay_folders;
pub use protection::Protection;
pub use removal::remove_folder;
pub use sandbox_host_git::{
    Error as ImportError, Left, MainWorkTree, RefChange, RefOutcome, Report as ImportReport, SettingChange,
    WorkTreeFiles,
};
pub use tampered::{TamperKind, TamperedPath};
pub use tree_files::{TreeFilesError, ignored_paths, tree_files};
pub use workspace_guard::{Findings, WorkspaceGuard};
