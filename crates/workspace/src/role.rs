//! The reason why a path of a tree is protected, and the text of files that name other protected
//! paths.

use std::io::Read as _;
use std::path::Path;

use sandbox_files::tree::Tree;

/// Git never writes a longer configuration or pointer.
pub(super) const LONGEST_TEXT: u64 = 1024 * 1024;

/// The reason why a path is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The hooks of a repository.
    Hooks,
    /// A configuration of a repository.
    Configuration,
    /// A file that names the repository of a folder: a `.git` that is not a folder, `commondir`,
    /// the `gitdir` of a linked work tree.
    Pointer,
    /// A program that a configuration of git names.
    Program,
    /// `.gitmodules`.
    Modules,
    /// One of git's own files: the steps of a rebase that continues later, some of which may be
    /// commands, or a link, pipe or device through which git writes.
    GitFile,
    /// A path of the list.
    Listed,
}

/// The content of a short file.
pub(super) fn text(tree: &Tree, path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = tree.file(path).ok()?;
    file.take(LONGEST_TEXT + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= LONGEST_TEXT).then_some(text)
}
