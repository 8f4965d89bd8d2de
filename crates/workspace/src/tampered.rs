//! Paths that a task tampered with.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// An entry that appeared, changed or disappeared at a protected path while a task ran, or that
/// must be reported for another reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TamperedPath {
    /// Its original path on the host.
    #[serde(serialize_with = "path_text")]
    pub path: PathBuf,
    /// The kind of finding.
    pub kind: TamperKind,
    /// Its present path, without permission to be executed if that could be removed; `None` if it
    /// is still in place, or gone.
    #[serde(serialize_with = "some_path_text")]
    pub moved_to: Option<PathBuf>,
    /// Whether the former entry has been restored.
    pub restored: bool,
    /// The reason why it could not be handled or read.
    pub problem: Option<String>,
}

/// A kind of finding, and its treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TamperKind {
    /// It is new or changed where host programs follow it implicitly: it was moved away.
    Followed,
    /// It was removed from a protected path: it was restored.
    Deleted,
    /// It had set-user-id or set-group-id bits: they were removed.
    Privileged,
    /// A folder that may hide something.
    Unseen,
    /// A Unix socket, whose other end was a process of the task. It remains in place.
    Socket,
    /// Git recorded another version of it in the index, for example by checking out another branch,
    /// and could not write that: it is unchanged since before the run.
    NotWritten,
    /// A file that this program reads implicitly, and that everyday work changes. It remains in
    /// place.
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

    /// A finding that remains in place.
    pub(super) fn left(path: PathBuf, kind: TamperKind) -> Self {
        Self { path, kind, moved_to: None, restored: false, problem: None }
    }

    /// A folder that may hide something.
    #[must_use]
    pub fn unseen(path: PathBuf, problem: &str) -> Self {
        Self {
            problem: Some(format!("it cannot be searched: {problem}")),
            ..Self::left(path, TamperKind::Unseen)
        }
    }

    /// Whether it is reported only for information: no program executes or follows it implicitly.
    #[must_use]
    pub fn is_left_in_place(&self) -> bool {
        matches!(self.kind, TamperKind::Socket | TamperKind::ToolInput(_) | TamperKind::NotWritten)
    }

    /// Its path, relative to `mount` if it is inside that.
    #[must_use]
    pub fn path_in(&self, mount: &Path) -> &Path {
        self.path.strip_prefix(mount).unwrap_or(&self.path)
    }
}

/// Serializes a path as text: one that is not valid text would keep the whole result from being
/// written.
pub(crate) fn path_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn some_path_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}
