//! Host folders and files that the container sees.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use sandbox_files::host_path::{Found, Identity, Resolver};
use sandbox_files::tree::Tree;

use super::invalid::InvalidSpec;
use super::protection::Protection;

/// A bind mount of a folder or file of the host.
///
/// Its text form is that of `docker run --volume`: `SRC:DST` or `SRC:DST:ro`.
///
/// ```
/// let mount: sandbox_workspace::Mount = "/srv/data:/data:ro".parse()?;
/// assert!(mount.read_only());
/// # Ok::<(), sandbox_workspace::InvalidSpec>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    host_path: PathBuf,
    container_path: String,
    read_only: bool,
    protection: Option<Protection>,
    copy_dir: Option<PathBuf>,
    /// In a view of a repository: the part that belongs to the work tree alone.
    own_part: Option<PathBuf>,
    /// The identity of the mounted file or folder once its path was resolved; the kernel's mount
    /// table is compared with it.
    identity: Option<Identity>,
}

impl Mount {
    /// Mounts `host_path` at `container_path`, writable.
    pub fn read_write(host_path: impl Into<PathBuf>, container_path: impl Into<String>) -> Self {
        Self {
            host_path: host_path.into(),
            container_path: container_path.into(),
            read_only: false,
            protection: None,
            copy_dir: None,
            own_part: None,
            identity: None,
        }
    }

    /// Mounts `host_path` at `container_path`; writes fail.
    pub fn read_only_at(host_path: impl Into<PathBuf>, container_path: impl Into<String>) -> Self {
        Self { read_only: true, ..Self::read_write(host_path, container_path) }
    }

    /// Mounts a copy-on-write view of the folder `host_path`: the task's changes are stored in
    /// `copy_dir`, and `host_path` remains unchanged. [`WorkspaceCopy`](crate::WorkspaceCopy)
    /// lists, applies or discards the changes; until then, further tasks with the same `copy_dir`
    /// continue with it, one at a time. The engine must see `copy_dir` at the same path, on a file
    /// system that supports the upper layer of an overlay (which an overlay itself does not).
    pub fn copy_on_write(
        host_path: impl Into<PathBuf>,
        container_path: impl Into<String>,
        copy_dir: impl Into<PathBuf>,
    ) -> Self {
        Self { copy_dir: Some(copy_dir.into()), ..Self::read_write(host_path, container_path) }
    }

    /// Protects the host from a task's changes in it. Default: no protection. Has no effect on a
    /// mount that is read-only or a copy.
    #[must_use]
    pub fn protected(mut self, protection: Protection) -> Self {
        self.protection = Some(protection);
        self
    }

    /// The host folder or file.
    #[must_use]
    pub fn host_path(&self) -> &Path {
        &self.host_path
    }

    /// Its path in the container.
    #[must_use]
    pub fn container_path(&self) -> &str {
        &self.container_path
    }

    /// Whether writes fail.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// The protected paths.
    #[must_use]
    pub fn protection(&self) -> Option<&Protection> {
        self.protection.as_ref()
    }

    /// The folder that stores a task's changes if the mount is a copy.
    #[must_use]
    pub fn copy_dir(&self) -> Option<&Path> {
        self.copy_dir.as_deref()
    }

    /// Makes the mount that of a repository whose folder `own` belongs to the work tree that
    /// another mount has a copy of.
    #[must_use]
    pub(super) fn of_repository(self, own: PathBuf) -> Self {
        Self { own_part: Some(own), ..self }
    }

    /// In a view of a repository: the part that belongs to the work tree alone.
    #[must_use]
    pub(super) fn own_part(&self) -> Option<&Path> {
        self.own_part.as_deref()
    }

    /// Whether the host sees the task's changes in it.
    #[must_use]
    pub fn is_writable_folder(&self) -> bool {
        !self.read_only && self.copy_dir.is_none() && self.host_path.is_dir()
    }

    /// Whether the host holds resources for it while a container has it, and has work to do when
    /// that has ended.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        let is_protected = self.protection.as_ref().is_some_and(|protection| !protection.is_none());
        self.copy_dir.is_some() || (is_protected && self.is_writable_folder())
    }

    /// The identity of the mounted file or folder, if its path was resolved.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Requires that the kernel shows exactly this file or folder.
    #[must_use]
    pub fn of(self, identity: Identity) -> Self {
        Self { identity: Some(identity), ..self }
    }

    /// Resolves its path with `resolver`, which follows no link that a task can have made.
    ///
    /// # Errors
    ///
    /// If the path does not exist, or leads through a link that a task can have made.
    pub fn found_by(&self, resolver: &Resolver) -> Result<Found, InvalidSpec> {
        resolver.find(&self.host_path).map_err(|error| {
            let path = self.host_path.display();
            let what = if error.is_not_found() { "found" } else { "mounted" };
            InvalidSpec::new("mounts", format!("`{path}` cannot be {what}: {}", error.problem()))
        })
    }

    /// This mount with another host path.
    #[must_use]
    pub fn with_host_path(&self, host_path: PathBuf) -> Self {
        Self { host_path, ..self.clone() }
    }

    /// This mount with the resolved host path, by `resolver`.
    ///
    /// # Errors
    ///
    /// As [`found_by`](Self::found_by).
    pub fn resolved(&self, resolver: &Resolver) -> Result<Self, InvalidSpec> {
        let found = self.found_by(resolver)?;
        Ok(self.with_host_path(found.path().to_owned()).of(found.identity()))
    }

    /// Opens the host folder that was checked.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or another folder has replaced the one that was checked.
    pub fn tree(&self) -> io::Result<Tree> {
        let Some(judged) = self.identity else {
            return Tree::open(&self.host_path.canonicalize()?);
        };
        let tree = Tree::open(&self.host_path)?;
        if tree.identity()? == judged {
            Ok(tree)
        } else {
            Err(io::Error::other("another folder has taken its place since it was checked"))
        }
    }

    /// Refuses a mount, once [`resolved`](Self::resolved), whose path leads elsewhere by now.
    ///
    /// # Errors
    ///
    /// If it does.
    pub fn refuse_moved(&self) -> Result<(), InvalidSpec> {
        if self.real_host_path()? == self.host_path {
            return Ok(());
        }
        Err(InvalidSpec::new(
            "mounts",
            format!("a part of `{}` became a symbolic link after it was checked", self.host_path.display()),
        ))
    }

    fn real_host_path(&self) -> Result<PathBuf, InvalidSpec> {
        self.host_path.canonicalize().map_err(|error| {
            InvalidSpec::new("mounts", format!("`{}` cannot be found: {error}", self.host_path.display()))
        })
    }

    /// This mount with a relative host path resolved against `folder`.
    #[must_use]
    pub fn relative_to(mut self, folder: &Path) -> Self {
        if self.host_path.is_relative() {
            self.host_path = folder.join(&self.host_path);
        }
        self
    }

    /// Checks everything that does not need the engine.
    ///
    /// # Errors
    ///
    /// If the host path is not absolute or does not exist, the container path is not absolute or
    /// contains `..`, or protected paths or the folder of a copy are invalid.
    pub fn validate(&self) -> Result<(), InvalidSpec> {
        let invalid = |problem: String| Err(InvalidSpec::new("mounts", problem));
        if !is_plain_absolute(Path::new(&self.container_path)) || self.container_path.contains(['\0', ':']) {
            return invalid(format!(
                "`{}` is not an absolute path in the container; write it without `..` and `:`",
                self.container_path
            ));
        }
        if !self.host_path.is_absolute() {
            return invalid(format!("`{}` must be an absolute path of the host", self.host_path.display()));
        }
        if !self.host_path.exists() {
            return invalid(format!(
                "`{}` does not exist on the host; create it first",
                self.host_path.display()
            ));
        }
        if let Some(protection) = &self.protection {
            protection.validate()?;
        }
        self.copy_dir.as_deref().map_or(Ok(()), |dir| self.validate_copy(dir))
    }

    /// Both paths become options of an overlay, whose grammar has no quotes that every engine
    /// passes on.
    fn validate_copy(&self, dir: &Path) -> Result<(), InvalidSpec> {
        let invalid = |problem: String| Err(InvalidSpec::new("mounts", problem));
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (source, target) = (real(&self.host_path), real(dir));
        for path in [&source, &target] {
            let plain = path.to_str().is_some_and(|path| !path.contains([':', ',', '\\', '"', '\n']));
            if !plain || !path.is_absolute() {
                return invalid(format!(
                    "`{}` cannot be used for a copy: its path must be absolute, and contain no `:`, `,`, `\\` and `\"`",
                    path.display()
                ));
            }
        }
        if !self.host_path.is_dir() {
            return invalid(format!(
                "`{}` is not a folder, so it cannot be copied",
                self.host_path.display()
            ));
        }
        if source.starts_with(&target) || target.starts_with(&source) {
            return invalid(format!(
                "the copy of `{}` cannot be stored in `{}`: neither may contain the other",
                self.host_path.display(),
                dir.display()
            ));
        }
        Ok(())
    }
}

fn is_plain_absolute(path: &Path) -> bool {
    path.is_absolute()
        && path != Path::new("/")
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

impl FromStr for Mount {
    type Err = InvalidSpec;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            [source, target] | [source, target, "rw"] if !source.is_empty() && target.starts_with('/') => {
                Ok(Self::read_write(*source, *target))
            }
            [source, target, "ro"] if !source.is_empty() && target.starts_with('/') => {
                Ok(Self::read_only_at(*source, *target))
            }
            _ => Err(InvalidSpec::new(
                "mounts",
                format!("`{text}` is not a mount; write SRC:DST or SRC:DST:ro with an absolute DST"),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_short_form_and_refuses_everything_else() {
        for (text, expected) in [
            ("/a:/b", Some(Mount::read_write("/a", "/b"))),
            ("a:/b:ro", Some(Mount::read_only_at("a", "/b"))),
            ("a:/b:rw", Some(Mount::read_write("a", "/b"))),
            ("/a", None),
            ("/a:b", None),
            (":/b", None),
            ("/a:/b:z", None),
            ("/a:/b:ro:z", None),
        ] {
            assert_eq!(text.parse::<Mount>().ok(), expected, "{text}");
        }
    }

    #[test]
    fn missing_source_is_an_error() {
        let error = Mount::read_write("/no/such/folder", "/data").validate().unwrap_err().to_string();
        assert!(error.contains("/no/such/folder") && error.contains("create it"), "{error}");
    }

    #[test]
    fn copy_folder_inside_its_own_tree_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for (dir, good) in [("copy", true), ("tree/copy", false), ("", false), ("a:b", false), ("a,b", false)]
        {
            let mount = Mount::copy_on_write(&tree, "/w", folder.path().join(dir));
            assert_eq!(mount.validate().is_ok(), good, "{dir}");
        }
        let climbs = Mount::read_write(&tree, "/w").protected(Protection::none().with(["../x"]));
        assert_eq!(climbs.validate().unwrap_err().field(), "protected_paths");
    }

    #[test]
    fn target_that_climbs_is_refused() {
        assert!(Mount::read_write("/tmp", "/a/../etc").validate().is_err());
        assert!(Mount::read_write("/tmp", "/").validate().is_err());
    }
}
