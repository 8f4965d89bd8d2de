//! The files of a folder of the host that leave it together.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use sandbox_files::host_path::Resolver;
use sandbox_files::tree::{Kind, Tree, is_absence};
use sandbox_host_git::{Error, HostRepository, MainWorkTree, WorkTreeFiles};

use crate::WorkspaceError;
use crate::outside::{OutsideRepository, OutsideRepositoryError};

/// Entries of a folder without git.
const ENTRIES: usize = 1_000_000;

/// The files of a folder cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum TreeFilesError {
    /// Git cannot list them.
    #[error("failed to list the files of a git work tree")]
    Git(#[from] Error),
    /// The repository of a linked work tree is not accepted.
    #[error(transparent)]
    Repository(#[from] OutsideRepositoryError),
    /// A folder cannot be read.
    #[error(transparent)]
    Folder(#[from] WorkspaceError),
    /// There are too many entries.
    #[error("the folder has more than {ENTRIES} entries")]
    TooMany,
    /// Its `.git` names a repository that is not there.
    #[error("`{}` names a repository that does not exist", git_file.display().to_string().escape_debug())]
    NoRepository {
        /// The file.
        git_file: PathBuf,
    },
}

/// The files of the folder `tree`, relative to it. In a git work tree, which may be larger, those that
/// git tracks and those that it does not ignore: see [`HostRepository::files`], also for `user`; of
/// these, some may not exist. Otherwise all, with folders and other entries. Repositories in it are
/// named if they have files; some of their files may be listed, too. Follows no link.
///
/// # Errors
///
/// If the folder, or the git repository that it is in, cannot be read, is not supported, or belongs to
/// another user.
pub fn tree_files(
    tree: &Tree,
    user: &[(OsString, OsString)],
    resolver: &Resolver,
) -> Result<WorkTreeFiles, TreeFilesError> {
    let listed =
        with_git(tree.path(), resolver, |repository, top, below| repository.files(top, below, user))?;
    let has_git = listed.is_some();
    let mut found = listed.map_or_else(|| without_git(tree), Ok)?;
    let failed = |path: &Path| {
        let path = tree.path().join(path);
        move |error| WorkspaceError::new("read", &path, error)
    };
    if has_git {
        // A folder in the place of a tracked file; its own files are listed, too.
        let is_folder =
            |path: &PathBuf| matches!(tree.facts(path), Ok(Some(facts)) if facts.kind == Kind::Folder);
        found.files.retain(|path| !is_folder(path));
    }
    let mut folders: BTreeSet<&Path> = found.files.iter().flat_map(|path| path.ancestors().skip(1)).collect();
    folders.extend(found.files.iter().map(PathBuf::as_path).filter(|_| !has_git));
    folders.insert(Path::new(""));
    let mut repositories = Vec::new();
    for folder in folders {
        if is_repository(tree, folder, has_git).map_err(failed(folder))? {
            repositories.push(folder.to_owned());
        }
    }
    for named in found.repositories {
        // A submodule that was not cloned has none.
        let is_empty = match tree.list(&named) {
            Err(error) if is_absence(&error) => true,
            names => names.map_err(failed(&named))?.is_empty(),
        };
        if !is_empty && !repositories.contains(&named) {
            repositories.push(named);
        }
    }
    found.repositories = repositories;
    Ok(found)
}

/// Which of `paths` in the folder `tree` its git ignores; none without git. Each is a file, or a folder
/// with its contents. For `user` see [`HostRepository::ignored`].
///
/// # Errors
///
/// If the git repository cannot be read, is not supported, or belongs to another user; if a path leads
/// through a link.
pub fn ignored_paths(
    tree: &Path,
    paths: &[(PathBuf, bool)],
    user: &[(OsString, OsString)],
    resolver: &Resolver,
) -> Result<Vec<PathBuf>, TreeFilesError> {
    let ignored =
        |repository: &HostRepository, top: &Path, below: &Path| repository.ignored(top, below, paths, user);
    Ok(with_git(tree, resolver, ignored)?.unwrap_or_default())
}

/// What `ask` returns of the repository whose work tree `root` is in, given that work tree and the path
/// below it; `None` without git.
fn with_git<T>(
    root: &Path,
    resolver: &Resolver,
    ask: impl FnOnce(&HostRepository, &Path, &Path) -> Result<T, Error>,
) -> Result<Option<T>, TreeFilesError> {
    let facts = |top: &&Path| top.join(".git").symlink_metadata();
    let Some(top) = root.ancestors().find(|top| facts(top).is_ok()) else { return Ok(None) };
    let below = root.strip_prefix(top).unwrap_or(Path::new(""));
    if facts(&top).is_ok_and(|facts| facts.is_file()) {
        let missing = || TreeFilesError::NoRepository { git_file: top.join(".git") };
        let outside = OutsideRepository::of(top, "/workspace", resolver)?.ok_or_else(missing)?;
        let repository = HostRepository::open_linked(outside.folder(), outside.name())?;
        return Ok(Some(ask(&repository, top, below)?));
    }
    let Some(main) = MainWorkTree::around(top)? else { return Ok(None) };
    Ok(Some(ask(main.repository(), top, below)?))
}

/// All entries.
fn without_git(tree: &Tree) -> Result<WorkTreeFiles, TreeFilesError> {
    let mut found = WorkTreeFiles::default();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let left = ENTRIES.saturating_sub(found.files.len());
        let entries = tree.list_at_most(&folder, left).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => TreeFilesError::TooMany,
            _ => WorkspaceError::new("read", &tree.path().join(&folder), error).into(),
        })?;
        for (name, kind) in entries {
            let path = folder.join(name);
            if kind == Kind::Folder {
                folders.push(path.clone());
            }
            found.files.push(path);
        }
    }
    Ok(found)
}

/// Whether `folder` is the work tree of a repository, or a bare one. With git, the topmost one is that
/// which is listed.
fn is_repository(tree: &Tree, folder: &Path, has_git: bool) -> io::Result<bool> {
    let names = match tree.list(folder) {
        Err(error) if is_absence(&error) => return Ok(false),
        names => names?,
    };
    let is_other = !has_git || !folder.as_os_str().is_empty();
    let is_work_tree = is_other && names.iter().any(|(name, _)| name.eq_ignore_ascii_case(".git"));
    let has = |part: &str| names.iter().any(|(name, _)| name == part);
    Ok(is_work_tree || ["HEAD", "objects", "refs"].into_iter().all(has))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn listed(root: &Path) -> Result<WorkTreeFiles, TreeFilesError> {
        let user = [("GIT_CONFIG_NOSYSTEM".into(), "1".into())];
        let mut found = tree_files(&Tree::open(root).unwrap(), &user, &Resolver::new([root]))?;
        found.files.sort();
        Ok(found)
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().canonicalize().unwrap().join("app");
        fs::create_dir_all(root.join("sub/empty")).unwrap();
        fs::write(root.join("sub/file"), "1").unwrap();
        (outer, root)
    }

    #[test]
    fn folder_without_git_is_listed_as_a_whole() {
        let (_outer, root) = folder();
        symlink("/etc", root.join("link")).unwrap();
        let found = listed(&root).unwrap();
        assert_eq!(found.files, ["link", "sub", "sub/empty", "sub/file"].map(PathBuf::from));
        assert!(found.repositories.is_empty());
    }

    #[test]
    fn repository_in_the_folder_is_named_in_any_form() {
        let bare = |at: &str| [format!("{at}HEAD"), format!("{at}objects/x"), format!("{at}refs/x")];
        for (files, expected) in [
            (vec!["other/.git/config".to_owned(), "other/file".to_owned()], "other"),
            (vec!["other/.GIT".to_owned()], "other"),
            (bare("other.git/").to_vec(), "other.git"),
            (bare("").to_vec(), ""),
        ] {
            let (_outer, root) = folder();
            assert!(listed(&root).unwrap().repositories.is_empty(), "the control");
            for file in &files {
                fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
                fs::write(root.join(file), "1").unwrap();
            }
            assert_eq!(listed(&root).unwrap().repositories, [PathBuf::from(expected)], "{files:?}");
        }
    }

    #[test]
    fn git_file_that_names_another_repository_is_refused() {
        let (_outer, root) = folder();
        let other = root.with_file_name("other.git");
        fs::create_dir(&other).unwrap();
        fs::write(root.join(".git"), format!("gitdir: {}\n", other.display())).unwrap();
        let refused = listed(&root);
        assert!(matches!(refused, Err(TreeFilesError::Repository(_))), "{refused:?}");
        fs::remove_dir(&other).unwrap();
        let missing = listed(&root);
        assert!(matches!(missing, Err(TreeFilesError::NoRepository { .. })), "{missing:?}");
        fs::remove_file(root.join(".git")).unwrap();
        symlink("../other.git", root.join(".git")).unwrap();
        assert!(matches!(listed(&root), Err(TreeFilesError::Git(_))));
    }
}
