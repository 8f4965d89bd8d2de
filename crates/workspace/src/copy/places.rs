//! What folders are called in the folder of a copy, besides those of its overlay.

/// The folder for the view of a repository that is kept outside of the tree.
pub(super) const GIT: &str = "git";
