//! Names in the folder of a copy, in addition to those of its overlay.

/// The folder for the view of a repository outside the tree.
pub(super) const GIT: &str = "git";
