//! A change of one path, as a caller sees it.

use std::path::PathBuf;

use sandbox_files::tree::Facts;
use serde::Serialize;

use super::super::tampered::path_text;

/// A path that differs between a copy and its work tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// Relative to the work tree.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// What happened to it.
    pub kind: ChangeKind,
    /// What it is in the copy; what it was, where it was removed.
    pub entry: EntryKind,
    /// Why it is not applied unless that is asked for.
    pub held_back: Option<HeldBack>,
    /// Whether it changed on the host too since the task began.
    pub conflict: bool,
    /// Whether it had set-user-id or set-group-id bits, which are never applied.
    pub privileged: bool,
    /// Whether it is a repository that the task made.
    #[serde(skip)]
    pub(super) is_repository: bool,
    /// What the work tree has there, as it was when they were compared.
    #[serde(skip)]
    pub(super) before: Option<Facts>,
    /// What the copy has there; `None` where it was removed.
    #[serde(skip)]
    pub(super) now: Option<Facts>,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content, kind or permissions are others.
    Modified,
    /// It is gone.
    Removed,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A device, pipe or socket.
    Special,
}

/// Why a change is not applied by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HeldBack {
    /// Programs of the host run it, or take orders from it, on their own; or it is a folder that goes together with such a thing.
    Protected,
    /// A symbolic link that leads out of the work tree.
    LeadsOut,
    /// A device, pipe or socket: never applied.
    Special,
    /// A repository that the task made, of which another one is made with its commits; or a file of a work tree in which git recorded one
    /// that is held back: what git did as one step is not split.
    Repository,
}

impl HeldBack {
    /// A word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Protected => "protected",
            Self::LeadsOut => "leads-out",
            Self::Special => "special",
            Self::Repository => "repository",
        }
    }
}

impl ChangeKind {
    /// The letter that git shows for it.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Modified => 'M',
            Self::Removed => 'D',
        }
    }
}
