//! Views of repositories of the host, which tasks get in their place, and what comes of what they do there.
//!
//! **Invariant.** No byte of a view is a byte of the host's: it is read by `sandbox-host-git`, and written anew as data of a closed list.

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
