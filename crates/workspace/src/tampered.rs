//! What a task tampered with.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// Something that appeared, changed or went away at a protected path while a task ran, or that has to be known for another reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TamperedPath {
    /// Where it was, on the host.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// What it is.
    pub kind: TamperKind,
    /// Where it is now, without permission to be executed where that could be taken away; `None` where it is still there, or gone.
    #[serde(serialize_with = "some_path_text")]
    pub moved_to: Option<PathBuf>,
    /// Whether what was there before the run is there again.
    pub restored: bool,
    /// Why it could not be dealt with, or why it could not be read.
    pub problem: Option<String>,
}

/// What a task left, and so what was done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TamperKind {
    /// It is new or changed where programs of the host follow it on their own: it was moved away.
    Followed,
    /// It was removed from a protected path: it was put back.
    Deleted,
    /// It had set-user-id or set-group-id bits: they were taken away.
    Privileged,
    /// A folder that may hide something.
    Unseen,
    /// A Unix socket, whose other end was a process of the task. It was left in place.
    Socket,
    /// Git recorded another version of it in the index, as when it checks out another branch, and could not write that: it stayed as it
    /// was before the run.
    NotWritten,
    /// A file that this program reads by itself, and that everyday work changes. It was left in place.
    ToolInput(&'static str),
}

impl TamperedPath {
    pub(super) fn new(path: PathBuf, moved: io::Result<PathBuf>, restored: bool) -> Self {
        let (moved_to, problem) = match moved {
            Ok(to) => (Some(to), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { moved_to, restored, problem, ..Self::left(path, TamperKind::Followed) }
    }

    pub(super) fn deleted(path: PathBuf, restored: io::Result<()>) -> Self {
        Self {
            restored: restored.is_ok(),
            problem: restored.err().map(|error| error.to_string()),
            ..Self::left(path, TamperKind::Deleted)
        }
    }

    pub(super) fn privileged(path: PathBuf, revoked: io::Result<()>) -> Self {
        Self {
            problem: revoked.err().map(|error| error.to_string()),
            ..Self::left(path, TamperKind::Privileged)
        }
    }

    /// Something that was left where it is.
    pub(super) fn left(path: PathBuf, kind: TamperKind) -> Self {
        Self { path, kind, moved_to: None, restored: false, problem: None }
    }

    /// A folder that may hide something.
    #[must_use]
    pub fn unseen(path: PathBuf, problem: &str) -> Self {
        Self {
            problem: Some(format!("it cannot be looked into: {problem}")),
            ..Self::left(path, TamperKind::Unseen)
        }
    }

    /// Whether it is reported for information: nothing of it runs or is followed by itself.
    #[must_use]
    pub fn is_left_in_place(&self) -> bool {
        matches!(self.kind, TamperKind::Socket | TamperKind::ToolInput(_) | TamperKind::NotWritten)
    }

    /// Where it was, relative to `mount` where it lies in it.
    #[must_use]
    pub fn path_in(&self, mount: &Path) -> &Path {
        self.path.strip_prefix(mount).unwrap_or(&self.path)
    }
}

/// A path as text: one that is none would keep the whole result from being written.
pub(crate) fn path_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn some_path_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}
