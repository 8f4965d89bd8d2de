//! The folders of a project's settings, and of state that outlives a run.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use sandbox::host_path::{Resolver, writable_folders};
use sandbox_files::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Environment;
use crate::failure::Failure;

/// The folder with a project's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) const NAME: &str = ".sandbox";
    /// Read if the other one does not exist.
    pub(crate) const FORMER_NAME: &str = ".airut";

    /// The folder of the project in `root`; it need not exist.
    pub(crate) fn of(root: &Path) -> Self {
        let (own, former) = (root.join(Self::NAME), root.join(Self::FORMER_NAME));
        // A dangling link counts as existing: reading through it is an error.
        let is_there = own.symlink_metadata().is_ok();
        let path = if !is_there && former.is_dir() { former } else { own };
        Self { path }
    }

    /// The folder `path`, wherever it is.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Its path in the project in `root`, if it is there under another name than the usual ones.
    pub(crate) fn elsewhere_in(&self, root: &Path) -> Option<PathBuf> {
        let path = std::path::absolute(&self.path).ok()?;
        let inside = path.strip_prefix(root).ok()?;
        let is_usual = [Self::NAME, Self::FORMER_NAME].iter().any(|name| inside == Path::new(name));
        let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
        (!is_usual && is_plain && inside != Path::new("")).then(|| inside.to_owned())
    }

    /// The name that it has in the project.
    pub(crate) fn name(&self) -> Option<&OsStr> {
        self.path.file_name()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path.join("sandbox.yaml")
    }

    pub(crate) fn allowlist(&self) -> PathBuf {
        self.path.join("network-allowlist.yaml")
    }

    /// The settings files, whether they exist or not.
    pub(crate) fn files(&self) -> [PathBuf; 4] {
        [self.config(), self.allowlist(), self.build_allowlist(), self.dockerfile()]
    }

    /// The allowlist of image builds.
    pub(crate) fn build_allowlist(&self) -> PathBuf {
        self.path.join("build-allowlist.yaml")
    }

    pub(crate) fn dockerfile(&self) -> PathBuf {
        self.path.join("container/Dockerfile")
    }
}

/// Where a run's policy comes from, so that a change of it can be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PolicySource {
    /// `--config`, absolute.
    pub(crate) config: Option<PathBuf>,
    /// The file of the policy, absolute. It need not exist.
    pub(crate) file: PathBuf,
    /// Whether `--allowlist` names it.
    pub(crate) is_flag: bool,
}

impl PolicySource {
    /// Whether it can be in a message.
    pub(crate) fn is_text(&self) -> bool {
        self.config.iter().chain([&self.file]).all(|path| path.to_str().is_some())
    }
}

/// Folders outside of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// Root authority, locks, logs, sessions.
    pub(crate) state: PathBuf,
}

impl Places {
    /// `$XDG_STATE_HOME/sandbox`, otherwise `~/.local/state/sandbox`.
    pub(crate) fn find(environment: &Environment) -> Result<Self, Failure> {
        let absolute = |path: &PathBuf| path.is_absolute();
        let base = environment.path("XDG_STATE_HOME").filter(absolute);
        let base = base.or_else(|| Some(environment.path("HOME").filter(absolute)?.join(".local/state")));
        match base {
            Some(base) => Ok(Self { state: base.join("sandbox") }),
            None => Err(Failure::new(
                "no folder for state: neither XDG_STATE_HOME nor HOME names an absolute path",
            )
            .with_hint("set HOME")),
        }
    }

    /// The logs of all projects, one folder per project.
    pub(crate) fn all_logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// The logs of a project, one folder per run.
    pub(crate) fn logs(&self, key: &str) -> PathBuf {
        self.all_logs().join(key)
    }

    /// The copies of work trees, a folder for each project.
    pub(crate) fn copies(&self) -> PathBuf {
        self.state.join("copies")
    }

    /// The copy of a project's work tree.
    pub(crate) fn copy(&self, key: &str) -> PathBuf {
        self.copies().join(key)
    }

    /// The unpacked trees of bundles, a folder for each, and their lock.
    pub(crate) fn trees(&self) -> PathBuf {
        self.state.join("trees")
    }

    /// The copies of active runs of bundles, a folder for each, and their lock.
    pub(crate) fn bundle_copies(&self) -> PathBuf {
        self.state.join("bundle-copies")
    }

    /// The paths of bundles that were written here, a file for each, named by its digest.
    pub(crate) fn bundles(&self) -> PathBuf {
        self.state.join("bundles")
    }

    /// The state of logins, and their locks.
    pub(crate) fn logins(&self) -> PathBuf {
        self.state.join("logins")
    }

    /// The trust records, a folder for each project.
    pub(crate) fn trust(&self) -> PathBuf {
        self.state.join("trust")
    }

    /// Opens paths of the host. Tasks can write to the work tree `root`, and to the folders that
    /// earlier tasks could write to.
    pub(crate) fn resolver(&self, root: &Path) -> Result<Resolver, Failure> {
        let mut resolver = self.resolver_without_tree()?;
        resolver.add(root);
        Ok(resolver)
    }

    /// The same without a work tree.
    pub(crate) fn resolver_without_tree(&self) -> Result<Resolver, Failure> {
        let known = writable_folders(&self.state);
        let known = known.map_err(Failure::doing(format!("read `{}`", self.state.display())))?;
        Ok(Resolver::new(known))
    }

    /// The session of a project.
    pub(crate) fn session(&self, key: &str) -> PathBuf {
        self.state.join("sessions").join(key)
    }
}

/// A unique and recognizable name for the project in `root`.
pub(crate) fn project_key(root: &Path) -> String {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    let name = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' }
    };
    let name: String = name.chars().take(32).map(plain).collect();
    let hash = hex(digest.get(..6).unwrap_or_default());
    let name = name.trim_start_matches(['.', '-']);
    format!("{}-{hash}", if name.is_empty() { "root" } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_folder_follows_the_environment() {
        let state =
            |environment| Places::find(&environment).map(|places| places.state.display().to_string()).ok();
        assert_eq!(
            state(Environment::from([("XDG_STATE_HOME", "/s"), ("HOME", "/h")])).as_deref(),
            Some("/s/sandbox")
        );
        assert_eq!(state(Environment::from([("HOME", "/h")])).as_deref(), Some("/h/.local/state/sandbox"));
        assert_eq!(
            state(Environment::from([("XDG_STATE_HOME", "relative"), ("HOME", "/h")])).as_deref(),
            Some("/h/.local/state/sandbox")
        );
        assert_eq!(state(Environment::default()), None);
    }

    #[test]
    fn former_folder_is_used_only_without_the_current_one() {
        let root = tempfile::tempdir().unwrap();
        assert!(Folder::of(root.path()).path.ends_with(".sandbox"));
        std::fs::create_dir(root.path().join(".airut")).unwrap();
        assert!(Folder::of(root.path()).path.ends_with(".airut"));
        std::fs::create_dir(root.path().join(".sandbox")).unwrap();
        assert!(Folder::of(root.path()).path.ends_with(".sandbox"));
    }

    #[test]
    fn projects_of_one_name_have_different_keys() {
        let (a, b) = (project_key(Path::new("/a/app")), project_key(Path::new("/b/app")));
        assert!(a.starts_with("app-") && b.starts_with("app-") && a != b, "{a} {b}");
        assert!(project_key(Path::new("/")).starts_with("root-"));
        assert!(project_key(Path::new("/x/.höme ")).starts_with("h-me--"));
    }
}
