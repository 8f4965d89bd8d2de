//! The host's side of a launch's mounts: resolved paths, and paths that no task may reach.

use std::io;
use std::path::Path;

use crate::error::SandboxError;
use crate::spec::{InvalidSpec, Mount};
use sandbox_files::host_path::{self, Found, Resolver};

/// The folder of the state directory with trees that a task may get copies of: they have no keys.
const TREES: &str = "trees";

/// `mounts` with their paths resolved now, without following a link that a task may have created.
/// The folders that they make writable are untrusted from now on, for every sandbox with this state
/// directory.
///
/// # Errors
///
/// When a path does not exist, leads through such a link, or leads to the state directory, which
/// holds the keys of every task's proxy. A copy of a folder in its `trees` is no error.
pub(crate) fn resolved(state_dir: &Path, mounts: &[Mount]) -> Result<Vec<Mount>, SandboxError> {
    if mounts.is_empty() {
        return Ok(Vec::new());
    }
    let resolver = resolver(state_dir, mounts)?;
    // It does not exist before the first task.
    let state = Resolver::default().find(state_dir).ok();
    let mut sources = Vec::with_capacity(mounts.len());
    for mount in mounts {
        let found = mount.found_by(&resolver)?;
        if let Some(state) = &state
            && !is_tree(mount, &found, state)
        {
            refuse_overlap(mount, &found, state)?;
        }
        sources.push(mount.with_host_path(found.path().to_owned()).of(found.identity()));
    }
    for mount in sources.iter().filter(|mount| !mount.read_only()) {
        let noted = host_path::remember(state_dir, mount.host_path());
        noted.map_err(|error| unusable(state_dir, &error))?;
    }
    Ok(sources)
}

/// Refuses a folder for the sandbox's own files that a task may have written, or that a task's link
/// leads to.
///
/// # Errors
///
/// When `path`, or its nearest existing ancestor, is such a folder.
pub(crate) fn refuse_untrusted(
    state_dir: &Path,
    field: &'static str,
    path: &Path,
) -> Result<(), SandboxError> {
    let resolver = resolver(state_dir, [])?;
    let there = path.ancestors().find(|path| path.symlink_metadata().is_ok());
    let Some(there) = there.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    let problem = match resolver.find(there) {
        Ok(found) if !found.is_untrusted() => return Ok(()),
        Ok(_) => "is in a folder that tasks can write".to_owned(),
        Err(error) => error.problem().to_string(),
    };
    Err(InvalidSpec::new(field, format!("`{}`: {problem}; keep it apart", path.display())).into())
}

/// The resolver of `mounts`: tasks can write where earlier ones could, and where these mounts let
/// them.
///
/// # Errors
///
/// When the record of folders that earlier tasks could write cannot be read.
pub(crate) fn resolver<'a>(
    state_dir: &Path,
    mounts: impl IntoIterator<Item = &'a Mount>,
) -> Result<Resolver, SandboxError> {
    let known = host_path::writable_folders(state_dir).map_err(|error| unusable(state_dir, &error))?;
    let mut resolver = Resolver::new(known);
    let writable = mounts.into_iter().filter(|mount| !mount.read_only());
    writable.for_each(|mount| resolver.add(mount.host_path()));
    Ok(resolver)
}

/// By the path without links: another name of the same folder is refused.
fn is_tree(mount: &Mount, found: &Found, state: &Found) -> bool {
    mount.copy_dir().is_some() && found.path().parent() == Some(&state.path().join(TREES))
}

fn refuse_overlap(mount: &Mount, found: &Found, state: &Found) -> Result<(), InvalidSpec> {
    let failed = |error: host_path::PathError| InvalidSpec::new("mounts", error.to_string());
    if !found.contains(state).map_err(failed)? && !state.contains(found).map_err(failed)? {
        return Ok(());
    }
    Err(InvalidSpec::new(
        "mounts",
        format!(
            "`{}` would show the task the sandbox's own keys in `{}`; keep them apart",
            mount.host_path().display(),
            state.path().display()
        ),
    ))
}

fn unusable(state_dir: &Path, error: &io::Error) -> InvalidSpec {
    InvalidSpec::new("state_dir", format!("`{}` is not usable: {error}", state_dir.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn link_of_an_earlier_task_is_not_mounted() {
        let host = tempfile::tempdir().unwrap();
        let at = |path: &str| host.path().join(path);
        for folder in ["state", "app/cache", "secrets"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        let mounts = |path: &str| [Mount::read_only_at(at(path), "/cache")];
        let state = at("state");
        let whole = [Mount::read_write(at("app"), "/workspace")];
        resolved(&state, &whole).unwrap();
        assert_eq!(resolved(&state, &mounts("app/cache")).unwrap()[0].host_path(), at("app/cache"));
        fs::remove_dir(at("app/cache")).unwrap();
        symlink("../secrets", at("app/cache")).unwrap();
        let error = resolved(&state, &mounts("app/cache")).unwrap_err().to_string();
        assert!(error.contains("symbolic link in a folder that tasks can write"), "{error}");
        // The control: without a record of an earlier task, the link is trusted.
        let other = at("other-state");
        assert!(resolved(&other, &mounts("app/cache")).is_ok());
    }

    #[test]
    fn mount_of_the_state_directory_is_refused_under_any_name() {
        let host = tempfile::tempdir().unwrap();
        let at = |path: &str| host.path().join(path);
        fs::create_dir_all(at("home/state/keys")).unwrap();
        fs::create_dir_all(at("home/app")).unwrap();
        symlink("home", at("alias")).unwrap();
        for (path, good) in [
            ("home", false),
            ("alias", false),
            ("home/state", false),
            ("alias/state/keys", false),
            ("home/app", true),
        ] {
            let mounts = [Mount::read_only_at(at(path), "/x")];
            assert_eq!(resolved(&at("home/state"), &mounts).is_ok(), good, "{path}");
        }
    }

    #[test]
    fn only_copies_of_single_trees_of_the_state_directory_are_mounted() {
        let host = tempfile::tempdir().unwrap();
        let at = |path: &str| host.path().join(path);
        for folder in ["state/keys", "state/trees/one/deep", "trees/one"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        symlink("../keys", at("state/trees/link")).unwrap();
        let is_good = |mount: Mount| resolved(&at("state"), &[mount]).is_ok();
        let copy = |path: &str| Mount::copy_on_write(at(path), "/x", at("state/copy"));
        assert!(is_good(copy("state/trees/one")) && is_good(copy("trees/one")), "the control");
        for path in ["state", "state/keys", "state/trees", "state/trees/link", "state/trees/one/deep"] {
            assert!(!is_good(copy(path)), "{path}");
        }
        for mount in
            [Mount::read_only_at(at("state/trees/one"), "/x"), Mount::read_write(at("state/trees/one"), "/x")]
        {
            assert!(!is_good(mount.clone()), "{mount:?}");
        }
    }

    #[test]
    fn session_folder_that_tasks_can_write_is_refused() {
        let host = tempfile::tempdir().unwrap();
        let at = |path: &str| host.path().join(path);
        fs::create_dir_all(at("state")).unwrap();
        fs::create_dir_all(at("app")).unwrap();
        let check = |path: &str| refuse_untrusted(&at("state"), "session_dir", &at(path)).is_ok();
        assert!(check("app/session") && check("sessions/1"));
        resolved(&at("state"), &[Mount::read_write(at("app"), "/workspace")]).unwrap();
        assert!(!check("app/session") && check("sessions/1"));
    }
}
