//! What folders are called in the folder of a copy.

/// The upper layer of the overlay.
pub(super) const UPPER: &str = "upper";
/// What the kernel needs beside it.
pub(super) const WORK: &str = "work";
/// The folder for the view of a repository that is kept outside of the tree.
pub(super) const GIT: &str = "git";
