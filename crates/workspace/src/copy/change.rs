//! A change of one path, in the form for callers.

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
    /// The kind of change.
    pub kind: ChangeKind,
    /// The kind of its entry in the copy; the former kind if it was removed.
    pub entry: EntryKind,
    /// The reason why it is applied only on request.
    pub withheld: Option<Withheld>,
    /// Whether it changed on the host too since the task began.
    pub conflict: bool,
    /// Whether it had set-user-id or set-group-id bits, which are never applied.
    pub privileged: bool,
    /// Whether it is a repository that the task made.
    #[serde(skip)]
    pub(super) is_repository: bool,
    /// The work tree's entry at the time of the comparison.
    #[serde(skip)]
    pub(super) before: Option<Facts>,
    /// The copy's entry; `None` if it was removed.
    #[serde(skip)]
    pub(super) now: Option<Facts>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content, kind or permissions changed.
    Modified,
    /// It was removed.
    Removed,
}

/// The kind of an entry.
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

/// The reason why a change is applied only on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Withheld {
    /// Host programs execute or obey it implicitly; or it is a folder that would be changed
    /// together with such an entry.
    Protected,
    /// A symbolic link that leads out of the work tree.
    LeadsOut,
    /// A device, pipe or socket: never applied.
    Special,
    /// A repository that the task created, of which another one is created with its commits; or a
    /// file of a work tree in which git recorded a withheld file: the parts of one git operation
    /// are not separated.
    Repository,
}

impl Withheld {
    /// A short label.
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
