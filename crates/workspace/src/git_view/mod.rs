//! Views of host repositories, which tasks get in their place, and the import of the changes in
//! them.
//!
//! **Invariant.** No byte of a view becomes a byte of the host's: `sandbox-host-git` reads it, and
//! writes it again as data of a closed list.

pub(crate) mod git_changes;
mod known;
mod views;
mod written_later;

#[cfg(test)]
mod tests;

pub use git_changes::{FailedImport, GitChanges, RepositoryChanges, WaitingSetting};
pub(crate) use known::{Found, Known, Opened, any_run, find, is_repository, run};
pub use views::Patience;
pub(crate) use views::{Views, recover};
pub(crate) use written_later::hint;
