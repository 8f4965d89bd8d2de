//! Linked work trees of a repository, made without running any program that it names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sandbox_files::tree::Tree;

use crate::git::{Git, Input};
use crate::{Error, Limits};

/// Bytes of a committed file that is read as a whole.
const COMMITTED: u64 = 1 << 20;

/// A work tree on the host.
///
/// Git works on it without the user's configuration, and without programs that the repository's
/// configuration names: hooks, filters and file system monitors.
#[derive(Debug)]
pub struct WorkTree {
    tree: Tree,
}

impl WorkTree {
    /// The work tree that `folder` is in: the nearest folder above it with `.git`, or itself.
    ///
    /// # Errors
    ///
    /// If that folder cannot be opened.
    pub fn around(folder: &Path) -> Result<Option<Self>, Error> {
        let top = folder.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok());
        top.map(|top| Ok(Self { tree: Tree::open(top).map_err(Error::files("open", top))? })).transpose()
    }

    /// Its topmost folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.tree.path()
    }

    /// The file at `path`, relative to the topmost folder, as the commit at `HEAD` has it; `None`
    /// if it has none, or one of more than 1 MiB.
    ///
    /// # Errors
    ///
    /// If git cannot be run.
    pub fn committed(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        let Some(path) = path.to_str() else { return Ok(None) };
        let object = format!("HEAD:{path}");
        let size = self.git(Vec::new()).run("look", &["cat-file", "-s", &object], Input::Nothing, None)?;
        let size = std::str::from_utf8(&size.output).ok().and_then(|size| size.trim().parse::<u64>().ok());
        if size.is_none_or(|size| size > COMMITTED) {
            return Ok(None);
        }
        self.git(Vec::new()).read("read a file", &["cat-file", "blob", &object], Input::Nothing).map(Some)
    }

    /// Whether `folder` is a work tree of the same repository.
    ///
    /// # Errors
    ///
    /// If git fails.
    pub fn has(&self, folder: &Path) -> Result<bool, Error> {
        let arguments = ["worktree", "list", "--porcelain", "-z"];
        let list = self.git(Vec::new()).read("list work trees", &arguments, Input::Nothing)?;
        let expected = [b"worktree ", folder.as_os_str().as_encoded_bytes()].concat();
        Ok(list.split(|byte| *byte == 0).any(|line| line == expected))
    }

    /// Creates a linked work tree in `folder`, with the new branch `branch` at this one's `HEAD`.
    /// Files that a filter would have changed are there as they are stored: those of Git LFS are
    /// pointers.
    ///
    /// # Errors
    ///
    /// If git refuses: the branch or the folder exists, or nothing is committed yet.
    pub fn add(&self, folder: &Path, branch: &str) -> Result<(), Error> {
        let folder = folder.to_str().ok_or_else(|| Error::Unsupported {
            path: folder.to_owned(),
            problem: "has a path that is not UTF-8",
        })?;
        let arguments = ["worktree", "add", "--quiet", "--no-track", "-b", branch, "--", folder, "HEAD"];
        self.git(self.filters()?).read("add a work tree", &arguments, Input::Nothing).map(drop)
    }

    /// The settings with which a filter runs a program, as git reads them: with those of included
    /// files.
    fn filters(&self) -> Result<Vec<String>, Error> {
        let arguments = ["config", "--null", "--name-only", "--get-regexp", "^filter[.]"];
        // Without any, it fails and prints nothing.
        let names = self.git(Vec::new()).run("read filters", &arguments, Input::Nothing, None)?.output;
        let drivers: BTreeSet<&str> = names
            .split(|byte| *byte == 0)
            .filter_map(|name| std::str::from_utf8(name).ok()?.rsplit_once('.'))
            .map(|(driver, _)| driver)
            .collect();
        let settings = ["clean", "process", "smudge", "required"];
        Ok(drivers.iter().flat_map(|driver| settings.map(|name| format!("{driver}.{name}"))).collect())
    }

    fn git(&self, mut cleared: Vec<String>) -> Git<'_> {
        cleared.push("submodule.recurse".to_owned());
        let limits = Limits::default();
        Git::new(&self.tree, &PathBuf::new(), &limits).in_work_tree(self.path(), cleared)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::fixture::{git, script};

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap().join("app");
        fs::create_dir_all(top.join("sub")).unwrap();
        script(&top, "git init -q -b main .; echo 1 > sub/file; git add .; git commit -qm 1");
        (folder, top)
    }

    #[test]
    fn work_tree_is_added_at_head_with_a_branch_of_its_own() {
        let (_folder, top) = repository();
        let tree = WorkTree::around(&top.join("sub")).unwrap().unwrap();
        assert_eq!(tree.path(), top);
        assert_eq!(tree.committed(Path::new("sub/file")).unwrap().as_deref(), Some(&b"1\n"[..]));
        assert_eq!(tree.committed(Path::new("sub/other")).unwrap(), None);
        let added = top.with_file_name("app.worktrees").join("one");
        assert!(!tree.has(&added).unwrap());
        tree.add(&added, "one").unwrap();
        assert!(tree.has(&added).unwrap() && !tree.has(&top.join("sub")).unwrap());
        assert_eq!(fs::read(added.join("sub/file")).unwrap(), b"1\n");
        assert_eq!(git(&added, "rev-parse --abbrev-ref HEAD"), "one\n");
        assert_eq!(git(&added, "status --porcelain"), "");
        // From a linked one too.
        let linked = WorkTree::around(&added).unwrap().unwrap();
        linked.add(&added.with_file_name("two"), "two").unwrap();
        assert!(tree.has(&added.with_file_name("two")).unwrap());
        let again = tree.add(&added.with_file_name("three"), "one").unwrap_err().to_string();
        assert!(again.contains("already exists"), "{again}");
    }

    #[test]
    fn programs_that_a_repository_names_do_not_run() {
        let (folder, top) = repository();
        let ran = folder.path().join("ran");
        let program = format!("sh -c 'touch {}; cat'", ran.display());
        fs::write(top.join(".gitattributes"), "* filter=a=b\n").unwrap();
        fs::write(
            top.join(".git/more"),
            format!("[filter \"a=b\"]\n\tsmudge = \"{program}\"\n\trequired = true\n"),
        )
        .unwrap();
        let hook = top.join(".git/hooks/post-checkout");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        script(
            &top,
            "chmod +x .git/hooks/post-checkout; git add .; git commit -qm 2; git config include.path more",
        );
        let tree = WorkTree::around(&top).unwrap().unwrap();
        let added = top.with_file_name("one");
        tree.add(&added, "one").unwrap();
        assert!(!ran.exists(), "a program of the repository ran");
        assert_eq!(fs::read(added.join("sub/file")).unwrap(), b"1\n");
        for only in ["filter.x.y", "core.hooksPath"] {
            git(&top, &format!("-c {only}=/dev/null worktree add -q ../{only}"));
            assert!(ran.exists(), "the control: git itself runs the program");
            fs::remove_file(&ran).unwrap();
        }
    }

    #[test]
    fn folder_outside_of_a_repository_is_not_in_a_work_tree() {
        let folder = tempfile::tempdir().unwrap();
        assert!(WorkTree::around(folder.path()).unwrap().is_none());
    }
}
