//! What a task planted.

use std::io;
use std::path::{Path, PathBuf};

/// Something that appeared or changed at a protected path while a task ran, or a folder that nobody can look into since.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planted {
    /// Where it was, on the host.
    pub path: PathBuf,
    /// Where it is now, without permission to be executed where that could be taken away; `None` where it could not be moved, and so is still there.
    pub moved_to: Option<PathBuf>,
    /// Whether what was there before the run is there again: so for configurations of git.
    pub restored: bool,
    /// Why it could not be moved, or why nobody could look into it.
    pub problem: Option<String>,
}

impl Planted {
    pub(super) fn new(path: PathBuf, moved: io::Result<PathBuf>, restored: bool) -> Self {
        let (moved_to, problem) = match moved {
            Ok(to) => (Some(to), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            path,
            moved_to,
            restored,
            problem,
        }
    }

    /// A folder that may hide something.
    pub(crate) fn unseen(path: PathBuf, problem: &str) -> Self {
        Self {
            path,
            moved_to: None,
            restored: false,
            problem: Some(format!("it cannot be looked into: {problem}")),
        }
    }

    /// Where it was, relative to `mount` where it lies in it.
    #[must_use]
    pub fn path_in(&self, mount: &Path) -> &Path {
        self.path.strip_prefix(mount).unwrap_or(&self.path)
    }
}
