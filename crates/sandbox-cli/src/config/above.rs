//! Finds the project of the current folder: its own, or that of the nearest parent folder.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::places::Folder;

/// The root of a folder's project.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    /// A parent folder whose settings are ignored, and why.
    pub(crate) ignored: Option<(PathBuf, &'static str)>,
}

/// Finds the root of the project that contains `folder`: the nearest folder with settings,
/// otherwise `folder` itself. The search ends where git's would, at the border of a file system or
/// of a repository, and below `home` and the root.
///
/// Settings in a parent folder are obeyed only if the user created them: anyone can put some into a
/// folder that others can write to, such as `/tmp`.
pub(crate) fn project_root(folder: &Path, home: Option<&Path>) -> Root {
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    project_root_for(folder, home, ids)
}

/// The same for the user and group `ids`.
fn project_root_for(folder: &Path, home: Option<&Path>, ids: (u32, u32)) -> Root {
    let own = |ignored| Root { path: folder.to_owned(), ignored };
    let Ok(facts) = folder.symlink_metadata() else { return own(None) };
    for candidate in folder.ancestors() {
        let is_end = candidate != folder && (home == Some(candidate) || candidate.parent().is_none());
        let Some(here) =
            candidate.symlink_metadata().ok().filter(|here| !is_end && here.dev() == facts.dev())
        else {
            return own(None);
        };
        if let Some((path, settings)) = settings(candidate) {
            let others = if candidate == folder { None } else { others(&here, &settings, ids) };
            return match others {
                None => Root { path: candidate.to_owned(), ignored: None },
                Some(why) => own(Some((path, why))),
            };
        }
        let is_repository = candidate.join(".git").symlink_metadata().is_ok();
        if is_repository || home == Some(candidate) {
            return own(None);
        }
    }
    own(None)
}

/// The folder with settings in `candidate`.
fn settings(candidate: &Path) -> Option<(PathBuf, Metadata)> {
    [Folder::NAME, Folder::FORMER_NAME].into_iter().find_map(|name| {
        let path = candidate.join(name);
        // Not a link: it could lead to files of others.
        let facts = path.symlink_metadata().ok().filter(Metadata::is_dir)?;
        Some((path, facts))
    })
}

/// Why users other than the current one could have put the settings there. The user's own group may
/// write: it does with a umask of 002, and has one member.
fn others(candidate: &Metadata, settings: &Metadata, (user, group): (u32, u32)) -> Option<&'static str> {
    if settings.uid() != user || candidate.uid() != user {
        Some("it belongs to another user")
    } else if (settings.mode() | candidate.mode()) & 0o002 != 0 {
        Some("everyone can write there")
    } else if [settings, candidate].iter().any(|facts| facts.mode() & 0o020 != 0 && facts.gid() != group) {
        Some("another group can write there")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().canonicalize().unwrap().join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        (root, deep)
    }

    fn up(deep: &Path, times: usize) -> PathBuf {
        deep.ancestors().nth(times).unwrap().to_owned()
    }

    fn found(deep: &Path, home: Option<&Path>) -> PathBuf {
        let facts = deep.symlink_metadata().unwrap();
        project_root_for(deep, home, (facts.uid(), facts.gid())).path
    }

    #[test]
    fn nearest_folder_with_settings_is_the_root() {
        let (_root, deep) = tree();
        assert_eq!(found(&deep, None), deep, "there is none");
        fs::create_dir(up(&deep, 2).join(".sandbox")).unwrap();
        assert_eq!(found(&deep, None), up(&deep, 2));
        assert_eq!(found(&up(&deep, 2), None), up(&deep, 2));
        fs::create_dir(up(&deep, 1).join(".airut")).unwrap();
        assert_eq!(found(&deep, None), up(&deep, 1));
        fs::create_dir(deep.join(".sandbox")).unwrap();
        assert_eq!(found(&deep, None), deep);
    }

    #[test]
    fn search_ends_at_home_and_at_repository_borders() {
        let (_root, deep) = tree();
        fs::create_dir(up(&deep, 2).join(".sandbox")).unwrap();
        assert_eq!(found(&deep, Some(&up(&deep, 2))), deep);
        assert_eq!(found(&deep, Some(&up(&deep, 1))), deep);
        assert_eq!(found(&up(&deep, 2), Some(&up(&deep, 2))), up(&deep, 2), "its own are the folder's");
        fs::create_dir(up(&deep, 2).join(".git")).unwrap();
        assert_eq!(found(&deep, None), up(&deep, 2), "the repository's own");
        fs::write(up(&deep, 1).join(".git"), "gitdir: x").unwrap();
        assert_eq!(found(&deep, None), deep, "a repository in it is another project");
    }

    #[test]
    fn settings_writable_by_others_are_ignored() {
        let (_root, deep) = tree();
        let above = up(&deep, 2);
        fs::create_dir(above.join(".sandbox")).unwrap();
        let facts = deep.symlink_metadata().unwrap();
        let (user, group) = (facts.uid(), facts.gid());
        let ignored_for = |ids| project_root_for(&deep, None, ids).ignored;
        let ignored = |user| ignored_for((user, group));
        // The control: by the user themselves.
        assert_eq!(ignored(user), None);
        assert_eq!(ignored(user + 1), Some((above.join(".sandbox"), "it belongs to another user")));
        for path in [above.join(".sandbox"), above.clone()] {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
            assert_eq!(ignored(user), Some((above.join(".sandbox"), "everyone can write there")));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o775)).unwrap();
            assert_eq!(ignored(user), None, "the user's own group");
            let others = Some((above.join(".sandbox"), "another group can write there"));
            assert_eq!(ignored_for((user, group + 1)), others);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::rename(above.join(".sandbox"), above.join("elsewhere")).unwrap();
        symlink(above.join("elsewhere"), above.join(".sandbox")).unwrap();
        assert_eq!(found(&deep, None), deep, "a link is not followed");
    }
}
