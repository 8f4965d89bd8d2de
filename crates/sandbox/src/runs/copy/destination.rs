//! The destination of a copy in a container.

use std::path::{Component, Path, PathBuf};

use crate::error::RunError;
use crate::error::SandboxError;
use crate::spec::RunName;
use sandbox_podman::{Engine, Inspection, PathFacts};

/// Paths where the kernel or the engine has files of its own.
const OWN: [&str; 5] = ["/proc", "/sys", "/dev", "/etc/hosts", "/etc/resolv.conf"];

/// The folder in which an archive is unpacked, and the archive's paths.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Destination {
    /// An existing folder.
    pub(super) folder: String,
    /// Missing folders on the way, relative to `folder`.
    pub(super) parents: Vec<PathBuf>,
    /// The copy's path, relative to `folder`. Empty: the folder itself, which gets the contents of
    /// the source.
    pub(super) at: PathBuf,
}

/// The paths of a container that are not part of its image: a copy would be written to the host, or
/// be invisible.
#[derive(Debug)]
pub(in crate::runs) struct Covered(Vec<PathBuf>);

impl Covered {
    pub(in crate::runs) fn of(is: &Inspection) -> Self {
        let mut places: Vec<PathBuf> = OWN.iter().map(PathBuf::from).collect();
        places.extend(is.mounts.iter().map(|mount| PathBuf::from(&mount.destination)));
        // In-memory file systems exist while the process runs.
        if is.state.status != "running" {
            places.extend(is.host_config.tmpfs.keys().map(PathBuf::from));
        }
        Self(places)
    }

    fn covers(&self, path: &Path) -> Option<&Path> {
        self.0.iter().map(PathBuf::as_path).find(|place| path.starts_with(place))
    }

    fn refuse(&self, path: &Path) -> Result<(), String> {
        self.covers(path).map_or(Ok(()), |by| {
            Err(format!(
                "`{}` is not part of the image; a copy would be written to the host, or be invisible",
                by.display()
            ))
        })
    }
}

/// Finds the destination of a copy to `target`, with all links of the container resolved.
pub(super) async fn find(
    engine: &Engine,
    container: &str,
    run: &RunName,
    target: &str,
    is_dir: bool,
    covered: &Covered,
) -> Result<Destination, SandboxError> {
    let refused = |problem: &str| RunError::Target {
        run: run.clone(),
        target: target.to_owned(),
        problem: problem.to_owned(),
    };
    let path = plain(target).ok_or_else(|| refused("write an absolute path without `..`"))?;
    for ancestor in path.ancestors() {
        let facts = engine.path_facts(container, &text(ancestor)).await?;
        let missing = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
        if let PathFacts::Folder(at) | PathFacts::Other(at) | PathFacts::DeadLink(at) = &facts {
            covered.refuse(&Path::new(at).join(missing)).map_err(|problem| refused(&problem))?;
        }
        match facts {
            PathFacts::DeadLink(_) => {
                return Err(refused(&format!("`{}` is a dangling link", ancestor.display())).into());
            }
            PathFacts::Folder(folder) if ancestor != path || is_dir => return Ok(below(folder, missing)),
            PathFacts::Folder(_) => return Err(refused("a folder exists there; name the file in it").into()),
            PathFacts::Other(_) if ancestor != path => {
                return Err(refused(&format!("`{}` is a file, not a folder", ancestor.display())).into());
            }
            PathFacts::Other(_) if is_dir => return Err(refused("a file exists there, not a folder").into()),
            // A file or a link is replaced; the link's target is not.
            PathFacts::Missing | PathFacts::Other(_) => {}
        }
    }
    Err(refused("the container has no root folder").into())
}

fn below(folder: String, missing: &Path) -> Destination {
    let mut parents: Vec<PathBuf> = missing
        .ancestors()
        .skip(1)
        .filter(|parent| !parent.as_os_str().is_empty())
        .map(Path::to_owned)
        .collect();
    parents.reverse();
    Destination { folder, parents, at: missing.to_owned() }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// An absolute path below the root without `.`, `..`, trailing slashes and NUL.
fn plain(target: &str) -> Option<PathBuf> {
    let path = Path::new(target);
    let good = path.is_absolute()
        && !target.contains('\0')
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
        && path.file_name().is_some();
    good.then(|| path.components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_folders_on_the_way_are_created() {
        for (missing, parents, at) in
            [("", vec![], ""), ("x", vec![], "x"), ("a/b/x", vec!["a", "a/b"], "a/b/x")]
        {
            let place = below("/srv".to_owned(), Path::new(missing));
            assert_eq!(place.parents, parents.into_iter().map(PathBuf::from).collect::<Vec<_>>());
            assert_eq!(place.at, Path::new(at));
        }
    }

    #[test]
    fn path_that_is_not_plain_is_refused() {
        for (target, good) in [
            ("/a/b", true),
            ("/a/b/", true),
            ("/", false),
            ("a", false),
            ("", false),
            ("/a/../b", false),
            ("/a\0", false),
        ] {
            assert_eq!(plain(target).is_some(), good, "{target:?}");
        }
    }

    #[test]
    fn path_below_a_mount_is_covered_and_a_similar_name_is_not() {
        let covered = Covered(vec!["/live".into(), "/etc/hosts".into()]);
        for (path, expected) in
            [("/live", true), ("/live/x", true), ("/lively", false), ("/etc", false), ("/etc/hosts", true)]
        {
            assert_eq!(covered.covers(Path::new(path)).is_some(), expected, "{path}");
        }
    }
}
