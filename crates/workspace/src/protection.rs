//! Paths of a mount that host programs execute or obey implicitly.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::invalid::InvalidSpec;
use super::known_files::{KnownFile, Treatment, known_file};

/// Protects the host from a task's changes in a writable mount.
///
/// The task has a copy-on-write view of each repository: at its end, its changes there are imported
/// as data of a closed list, and the rest is not. If no view can be created, the repository is
/// read-only.
///
/// An existing file or folder at another protected path is mounted read-only over the mount, so
/// that writing, renaming and removing it fail. An entry that appears at a protected path
/// meanwhile, or that could not be mounted, is compared after the run, moved out of the mount into
/// the quarantine folder of the state directory, and reported as
/// [`TamperedPath`](crate::TamperedPath). This happens once the container is gone, before the
/// result is returned; an execution that ends in an error has its tampered paths in the log. If a
/// task is killed together with the sandbox, the entries that it tampered with are not removed.
///
/// A folder that the task closed to this user, who could still open its entries by name, is opened
/// for its owner and searched; one that belongs to another user, and so remains closed, is reported
/// itself. Folders that were closed to this user before are not searched, nor are the objects,
/// references and logs of a repository in which the task could not write.
///
/// The default protects, at any depth, the hooks and configuration of git repositories (bare ones
/// and submodules too), `.envrc`, `.claude/`, `.mcp.json`, `.vscode/`, `.idea/`, `.cursor/`,
/// `.gemini/`, `.devcontainer/`, `.husky/`, `.pre-commit-config.yaml`, `lefthook.yml`, `.sandbox/`
/// and `.airut/`; in `node_modules`, `site-packages`, `target` and `vendor` only repositories. New
/// repositories are left alone if their configuration states only their origin, and their hooks are
/// git's samples.
///
/// ```
/// use sandbox_workspace::{Mount, Protection};
///
/// let mount = Mount::read_write("/srv/app", "/workspace").protected(Protection::default().with(["ci/deploy.sh", ".bazelrc"]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// Repositories and the table of known files.
    defaults: bool,
    names: Vec<String>,
    paths: Vec<PathBuf>,
}

impl Protection {
    /// Protects nothing.
    #[must_use]
    pub fn none() -> Self {
        Self { defaults: false, names: Vec::new(), paths: Vec::new() }
    }

    /// Protects these paths too. A path without a slash means every file or folder of that name, at
    /// any depth; one with a slash is relative to the mount.
    #[must_use]
    pub fn with(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        for path in paths {
            let path: String = path.into();
            let plain = path.trim_end_matches('/');
            if plain.contains('/') {
                self.paths.push(PathBuf::from(plain));
            } else {
                self.names.push(plain.to_owned());
            }
        }
        self
    }

    /// Protects exactly these paths too, relative to the mount.
    #[must_use]
    pub fn with_paths(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.paths.extend(paths);
        self
    }

    /// Whether nothing is protected.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.defaults && self.names.is_empty() && self.paths.is_empty()
    }

    /// Whether repositories and the known files of other programs are protected.
    #[must_use]
    pub fn has_defaults(&self) -> bool {
        self.defaults
    }

    /// Whether `name` in `folder`, relative to the mount, is protected with its content.
    pub(super) fn covers(&self, folder: &Path, name: &OsStr) -> bool {
        let is_guarded =
            || known_file(folder, name).is_some_and(|known| known.treatment == Treatment::Guarded);
        let has_own = !self.names.is_empty() || !self.paths.is_empty();
        (has_own && self.is_named(&folder.join(name))) || (self.defaults && is_guarded())
    }

    /// The known file that matches `name` in `folder`, if it is only reported.
    pub(super) fn reports(&self, folder: &Path, name: &OsStr) -> Option<&'static KnownFile> {
        let known = known_file(folder, name)?;
        (self.defaults && known.treatment == Treatment::Reported).then_some(known)
    }

    /// The known folder that is `folder` or contains it, if it is only reported.
    pub(super) fn reports_all_in(&self, folder: &Path) -> Option<&'static KnownFile> {
        folder.ancestors().find_map(|part| self.reports(part.parent()?, part.file_name()?))
    }

    /// Whether the caller named this path, or all paths of this name.
    pub(super) fn is_named(&self, path: &Path) -> bool {
        let name = path.file_name();
        self.is_path(path) || self.names.iter().any(|known| name == Some(OsStr::new(known)))
    }

    /// Whether the caller named exactly this path.
    pub(super) fn is_path(&self, path: &Path) -> bool {
        self.paths.iter().any(|known| known == path)
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
        let paths = self.names.iter().map(Path::new).chain(self.paths.iter().map(PathBuf::as_path));
        for path in paths {
            let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
            if path.as_os_str().is_empty() || !plain {
                return Err(InvalidSpec::new(
                    "protected_paths",
                    format!("`{}` must be relative to the mount, without `.` and `..`", path.display()),
                ));
            }
        }
        Ok(())
    }
}

impl Default for Protection {
    fn default() -> Self {
        Self { defaults: true, names: Vec::new(), paths: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_protected_at_any_depth_and_path_only_in_its_place() {
        let protection = Protection::none().with([".envrc", "ci/deploy.sh", ".bazel/"]);
        for (folder, name, covered) in [
            ("", ".envrc", true),
            ("a/b", ".envrc", true),
            ("", ".bazel", true),
            ("ci", "deploy.sh", true),
            ("", "deploy.sh", false),
            ("a/ci", "deploy.sh", false),
            ("", "envrc", false),
        ] {
            assert_eq!(protection.covers(Path::new(folder), OsStr::new(name)), covered, "{folder}/{name}");
        }
    }

    #[test]
    fn paths_that_leave_the_mount_are_refused() {
        for (path, good) in
            [("a/b", true), ("a", true), ("../a", false), ("/a/b", false), ("", false), (".", false)]
        {
            assert_eq!(Protection::none().with([path]).validate().is_ok(), good, "{path:?}");
        }
        assert!(Protection::default().validate().is_ok() && Protection::none().is_none());
    }
}
