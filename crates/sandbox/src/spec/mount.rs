//! Folders and files of the host that the container sees.

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::InvalidSpec;

/// A bind mount of a folder or file of the host.
///
/// Its text form is that of `docker run --volume`: `SRC:DST` or `SRC:DST:ro`.
///
/// ```
/// let mount: sandbox::Mount = "/srv/data:/data:ro".parse()?;
/// assert!(mount.read_only());
/// # Ok::<(), sandbox::InvalidSpec>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    host_path: PathBuf,
    container_path: String,
    read_only: bool,
}

impl Mount {
    /// Mounts `host_path` at `container_path`, writable.
    pub fn read_write(host_path: impl Into<PathBuf>, container_path: impl Into<String>) -> Self {
        Self {
            host_path: host_path.into(),
            container_path: container_path.into(),
            read_only: false,
        }
    }

    /// Mounts `host_path` at `container_path`; writing fails.
    pub fn read_only_at(host_path: impl Into<PathBuf>, container_path: impl Into<String>) -> Self {
        Self {
            host_path: host_path.into(),
            container_path: container_path.into(),
            read_only: true,
        }
    }

    /// The folder or file of the host.
    #[must_use]
    pub fn host_path(&self) -> &Path {
        &self.host_path
    }

    /// Where the container sees it.
    #[must_use]
    pub fn container_path(&self) -> &str {
        &self.container_path
    }

    /// Whether writing fails.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// The same mount with a relative host path taken from `folder`.
    #[must_use]
    pub fn relative_to(mut self, folder: &Path) -> Self {
        if self.host_path.is_relative() {
            self.host_path = folder.join(&self.host_path);
        }
        self
    }

    /// Checks what can be checked without the engine.
    pub(crate) fn validate(&self) -> Result<(), InvalidSpec> {
        let invalid = |problem: String| Err(InvalidSpec::new("mounts", problem));
        if !is_plain_absolute(Path::new(&self.container_path)) || self.container_path.contains(['\0', ':']) {
            return invalid(format!(
                "`{}` is no absolute path in the container; write it without `..` and `:`",
                self.container_path
            ));
        }
        if !self.host_path.is_absolute() {
            return invalid(format!(
                "`{}` must be an absolute path of the host",
                self.host_path.display()
            ));
        }
        if !self.host_path.exists() {
            return invalid(format!(
                "`{}` does not exist on the host; create it first",
                self.host_path.display()
            ));
        }
        Ok(())
    }
}

fn is_plain_absolute(path: &Path) -> bool {
    path.is_absolute()
        && path != Path::new("/")
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
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
                format!("`{text}` is no mount; write SRC:DST or SRC:DST:ro with an absolute DST"),
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
    fn a_missing_source_is_an_error_because_the_engine_would_create_it() {
        let error = Mount::read_write("/no/such/folder", "/data")
            .validate()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/no/such/folder") && error.contains("create it"),
            "{error}"
        );
    }

    #[test]
    fn a_target_that_climbs_is_refused() {
        assert!(Mount::read_write("/tmp", "/a/../etc").validate().is_err());
        assert!(Mount::read_write("/tmp", "/").validate().is_err());
    }
}
