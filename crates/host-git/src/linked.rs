//! Linked work trees, created without running any program that the repository names.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{RenameFlags, renameat_with};
use rustix::process::geteuid;
use sandbox_files::tree::{Kind, Tree};

use crate::git::{Git, Input};
use crate::object_id::ObjectId;
use crate::ref_name::RefName;
use crate::repository::HostRepository;
use crate::{Error, Limits};

/// The main work tree of a repository of this user.
///
/// [`add`](Self::add) creates a linked work tree like `git worktree add`, with one difference: its
/// files are written by a git with a configuration of ours. No hook, filter or monitor runs, even
/// if the repository's configuration, or a file that it includes, names one. So files of Git LFS
/// are pointers, and settings such as `core.autocrlf` have no effect.
#[derive(Debug)]
pub struct MainWorkTree {
    path: PathBuf,
    host: HostRepository,
}

impl MainWorkTree {
    /// The work tree that `folder` is in: the nearest folder with `.git`, from it upwards; `None`
    /// if there is none.
    ///
    /// # Errors
    ///
    /// If `.git` is not a folder, as in a linked work tree or a submodule; if it, or the folder
    /// with it, belongs to another user; and as for [`HostRepository::open`].
    pub fn around(folder: &Path) -> Result<Option<Self>, Error> {
        let facts = |path: &Path| path.symlink_metadata();
        let Some(path) = folder.ancestors().find(|folder| facts(&folder.join(".git")).is_ok()) else {
            return Ok(None);
        };
        let git = path.join(".git");
        let unsupported = |problem| Error::Unsupported { path: path.to_owned(), problem };
        if !facts(&git).map_err(Error::files("open", &git))?.is_dir() {
            return Err(unsupported("is not the main work tree of its repository"));
        }
        for path in [path, &git] {
            if facts(path).map_err(Error::files("open", path))?.uid() != geteuid().as_raw() {
                return Err(unsupported("belongs to another user"));
            }
        }
        Ok(Some(Self { path: path.to_owned(), host: HostRepository::open(&git)? }))
    }

    /// Its repository.
    #[must_use]
    pub fn repository(&self) -> &HostRepository {
        &self.host
    }

    /// Its topmost folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a linked work tree in `folder`, which must not exist, on the branch `branch`: at the
    /// commit of this work tree's `HEAD`, or where the branch is if it exists. `check` is given the
    /// folder once its files are written; if it fails, the folder is removed again, and the
    /// repository is as before. `scratch` is a folder of ours that must not exist and is removed.
    ///
    /// Until its files are written and checked, it is called `.NAME.sandbox-unfinished`; one that is
    /// left of a killed process is replaced. No two processes may do this at once. Returns the commit of the
    /// branch if it existed.
    ///
    /// # Errors
    ///
    /// If nothing is committed, another work tree has the branch, the repository has objects of
    /// another one, someone replaces `folder` meanwhile, or git fails; and the error of `check`.
    pub fn add<E: From<Error>>(
        &self,
        folder: &Path,
        branch: &str,
        scratch: &Path,
        check: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        let named = |error| E::from(self.host.named(error));
        let limits = Limits::default();
        let git = self.host.git(&limits);
        let name = RefName::branch(branch.as_bytes())
            .ok_or_else(|| self.unsupported("does not accept this name of a branch"))?;
        self.refuse(&git, branch, &name).map_err(named)?;
        let existing = self.branch(&git, &name).map_err(named)?;
        let head = || self.commit(&git, "HEAD")?.ok_or_else(|| self.unsupported("has no commit yet"));
        let commit = existing.clone().map_or_else(head, Ok).map_err(named)?;
        let mut new = NewFolder::create(folder)?;
        let written =
            self.check_out(&commit, &new.path, scratch, &limits).and_then(|()| new.demand_in_place());
        let written = written.map_err(named).and_then(|()| check(&new.path)).and_then(|()| {
            let linked = new.demand_in_place().and_then(|()| {
                if self.branch(&git, &name)? != existing {
                    return Err(self.unsupported("has moved the branch meanwhile; try again"));
                }
                new.take_place(folder)?;
                let created =
                    if existing.is_none() { Some(self.create_branch(&git, &name, &commit)?) } else { None };
                self.link(&new, branch, &name, scratch).inspect_err(|_| {
                    let _ = created.map(fs::remove_file);
                })
            });
            linked.map_err(named)
        });
        let _ = fs::remove_dir_all(scratch);
        if written.is_err() {
            let _ = fs::remove_dir_all(new.reached());
        }
        written.map(|()| existing.map(|id| id.as_str().to_owned()))
    }

    /// Refuses repositories and names from which no work tree can be created.
    fn refuse(&self, git: &Git<'_>, branch: &str, name: &RefName) -> Result<(), Error> {
        let common = self.host.reached();
        let is_there = |inner: &Path| common.join(inner).symlink_metadata().is_ok();
        if is_there(Path::new("objects/info/alternates")) {
            // The one who made the repository may have chosen it, and the commit, which would bring
            // files of another repository into the work tree.
            return Err(self.unsupported("has objects of another repository (objects/info/alternates)"));
        }
        if self.has_linked_objects()? {
            return Err(self.unsupported("has a link, or a device, in the place of an object"));
        }
        if is_there(&Path::new("worktrees").join(branch)) {
            let problem =
                "has a work tree of this name; if its files are gone, `git worktree remove -f -f` removes it";
            return Err(self.unsupported(problem));
        }
        if self.is_checked_out(name) {
            return Err(self.unsupported("has this branch in another work tree"));
        }
        let symbolic =
            git.run("read a branch", &["symbolic-ref", "--quiet", name.as_str()], Input::Nothing, None)?;
        if symbolic.is_success {
            return Err(self.unsupported("has a symbolic ref in the place of the branch"));
        }
        Ok(())
    }

    /// Whether a loose object is not a file: it may lead to one of another repository.
    fn has_linked_objects(&self) -> Result<bool, Error> {
        let tree = self.host.view().tree();
        let list = |path: &Path| tree.list(path).map_err(Error::files("list", path));
        let objects = Path::new("objects");
        for (name, kind) in list(objects)? {
            if kind == Kind::Folder && name.len() == 2 {
                let loose = list(&objects.join(name))?;
                if loose.iter().any(|(_, kind)| *kind != Kind::File) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn unsupported(&self, problem: &'static str) -> Error {
        Error::Unsupported { path: self.path.clone(), problem }
    }

    fn commit(&self, git: &Git<'_>, name: &str) -> Result<Option<ObjectId>, Error> {
        let revision = format!("{name}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &revision];
        let run = git.run("find a commit", &arguments, Input::Nothing, None)?;
        Ok(self.host.format().id(run.output.trim_ascii()).filter(|_| run.is_success))
    }

    /// The commit of a branch. A revision by name could be a tag, or the output of `git describe`.
    fn branch(&self, git: &Git<'_>, name: &RefName) -> Result<Option<ObjectId>, Error> {
        let arguments = ["show-ref", "--verify", "--hash", "--", name.as_str()];
        let run = git.run("find a branch", &arguments, Input::Nothing, None)?;
        match self.host.format().id(run.output.trim_ascii()).filter(|_| run.is_success) {
            Some(id) => self.commit(git, id.as_str()),
            None => Ok(None),
        }
    }

    /// Creates the branch as git does, and returns its file. Git itself would run the hooks of a
    /// configuration that may be included from the work tree.
    fn create_branch(&self, git: &Git<'_>, name: &RefName, commit: &ObjectId) -> Result<PathBuf, Error> {
        let path = self.host.reached().join(name.as_str());
        let mut lock = path.clone().into_os_string();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        put(&lock, format!("{}\n", commit.as_str()).as_bytes())?;
        // Git removes empty folders too.
        let _ = fs::remove_dir(&path);
        // Also one whose commit is missing, and those below it.
        let same = ["for-each-ref", "--count=1", "--format=%(refname)", name.as_str()];
        let is_free = || {
            let is_known = !git.read("list branches", &same, Input::Nothing)?.is_empty();
            Ok(!is_known && path.symlink_metadata().is_err())
        };
        let created = match is_free() {
            Ok(true) => fs::rename(&lock, &path).map_err(Error::files("create", &path)),
            Ok(false) => Err(self.unsupported("has another ref in the place of the branch")),
            Err(error) => Err(error),
        };
        if created.is_err() {
            let _ = fs::remove_file(&lock);
        }
        created.map(|()| path)
    }

    /// Also in this work tree itself.
    fn is_checked_out(&self, branch: &RefName) -> bool {
        let here = self.host.branches_at(Path::new(""));
        here.contains(branch) || self.host.branches_elsewhere().contains(branch)
    }

    /// Writes the files of `commit`, with the configuration of the repository in `scratch` and the
    /// objects of this one.
    fn check_out(
        &self,
        commit: &ObjectId,
        folder: &Path,
        scratch: &Path,
        limits: &Limits,
    ) -> Result<(), Error> {
        let ours = HostRepository::create(scratch, self.host.view(), false)?;
        let git = ours.git(limits).with_work_tree(scratch, folder, &self.path.join(".git/objects"));
        // It overwrites no file that is not ignored, should someone replace the folder meanwhile.
        let arguments = ["read-tree", "-m", "-u", commit.as_str()];
        git.read("write the files of a work tree", &arguments, Input::Nothing).map(drop)
    }

    /// Makes `folder` a work tree. Git takes it for one when its `.git` is there, which is last.
    fn link(&self, folder: &NewFolder, name: &str, branch: &RefName, scratch: &Path) -> Result<(), Error> {
        let worktrees = self.host.reached().join("worktrees");
        let own = worktrees.join(name);
        or_present(fs::create_dir(&worktrees)).map_err(Error::files("create", &worktrees))?;
        if !worktrees.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
            return Err(self.unsupported("has a link in the place of `worktrees`"));
        }
        fs::create_dir(&own).map_err(Error::files("create", &own))?;
        let linked = self.write_links(folder, name, branch, scratch, &own);
        if linked.is_err() {
            let _ = fs::remove_dir_all(&own);
        }
        linked
    }

    fn write_links(
        &self,
        folder: &NewFolder,
        name: &str,
        branch: &RefName,
        scratch: &Path,
        own: &Path,
    ) -> Result<(), Error> {
        let index = scratch.join("index");
        let index = fs::read(&index).map_err(Error::files("read", &index))?;
        let line = |path: &Path| [path.as_os_str().as_encoded_bytes(), b"\n"].concat();
        // `git worktree prune` keeps what is locked.
        let locked = own.join("locked");
        put(&locked, b"initializing\n")?;
        // Without it, git could not remove what a killed process leaves.
        put(&own.join("gitdir"), &line(&folder.path.join(".git")))?;
        put(&own.join("commondir"), b"../..\n")?;
        put(&own.join("HEAD"), format!("ref: {}\n", branch.as_str()).as_bytes())?;
        put(&own.join("index"), &index)?;
        let named = self.path.join(".git/worktrees").join(name);
        put(&folder.held.reached().join(".git"), &[b"gitdir: ", line(&named).as_slice()].concat())?;
        fs::remove_file(&locked).map_err(Error::files("remove", &locked))
    }
}

/// Writes a new file: never one that is there, nor through a link.
fn put(path: &Path, content: &[u8]) -> Result<(), Error> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(content));
    written.map_err(Error::files("write", path))
}

/// The end of the name of a folder whose files are being written.
const UNFINISHED: &str = ".sandbox-unfinished";

/// A new folder, in a folder of this user. Both are held open, wherever someone moves them.
struct NewFolder {
    path: PathBuf,
    parent: Tree,
    name: OsString,
    held: Tree,
}

impl NewFolder {
    /// Creates it for `path`, under a name of ours, and the folder that it is in if that does not
    /// exist.
    fn create(path: &Path) -> Result<Self, Error> {
        let parent = path.parent().unwrap_or(path);
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(UNFINISHED);
        let not_ours = || Error::Unsupported {
            path: parent.to_owned(),
            problem: "is reached through a link, or is not a folder of this user",
        };
        or_present(fs::create_dir(parent)).map_err(Error::files("create", parent))?;
        let is_ours = |facts: Metadata| facts.is_dir() && facts.uid() == geteuid().as_raw();
        if !parent.symlink_metadata().is_ok_and(is_ours) {
            return Err(not_ours());
        }
        let held = Tree::open(parent).map_err(Error::files("open", parent))?;
        if !parent.canonicalize().is_ok_and(|real| real == parent) {
            return Err(not_ours());
        }
        if path.symlink_metadata().is_ok() {
            return Err(Error::Unsupported { path: path.to_owned(), problem: "exists" });
        }
        let (path, reached) = (parent.join(&name), held.reached().join(&name));
        if reached.symlink_metadata().is_ok() {
            // Of a killed process.
            fs::remove_dir_all(&reached).map_err(Error::files("remove", &path))?;
        }
        fs::create_dir(&reached).map_err(Error::files("create", &path))?;
        let new = held.inner(Path::new(&name)).map_err(Error::files("open", &path))?;
        Ok(Self { path, parent: held, name, held: new })
    }

    /// Gives it the path for which it was created.
    fn take_place(&mut self, path: &Path) -> Result<(), Error> {
        let name = path.file_name().unwrap_or_default();
        let parent = self.parent.folder(Path::new("")).map_err(Error::files("open", path))?;
        renameat_with(&parent, &self.name, &parent, name, RenameFlags::NOREPLACE)
            .map_err(|error| Error::files("create", path)(error.into()))?;
        (self.path, self.name) = (path.to_owned(), name.to_owned());
        self.demand_in_place()
    }

    /// The path by which this process reaches it in the folder where it was created.
    fn reached(&self) -> PathBuf {
        self.parent.reached().join(&self.name)
    }

    /// Fails if someone has replaced it, or a folder that it is in.
    fn demand_in_place(&self) -> Result<(), Error> {
        let identity = |tree: Tree| tree.identity();
        let now = self.path.canonicalize().and_then(|real| Tree::open(&real)).and_then(identity);
        let is_same = now.is_ok_and(|now| self.held.identity().is_ok_and(|held| held == now));
        if is_same && self.path.canonicalize().is_ok_and(|real| real == self.path) {
            return Ok(());
        }
        Err(Error::Unsupported { path: self.path.clone(), problem: "was replaced while it was written" })
    }
}

fn or_present(created: io::Result<()>) -> io::Result<()> {
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::{git, script};

    fn repository() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("app");
        fs::create_dir_all(path.join("sub")).unwrap();
        script(&path, "git init -q -b main .\necho 1 > sub/file\ngit add .\ngit commit -qm 1");
        (folder, path)
    }

    fn add(path: &Path, branch: &str) -> Result<PathBuf, Error> {
        let folder = path.with_file_name("app.worktrees").join(branch);
        let scratch = path.with_file_name("scratch");
        let tree = MainWorkTree::around(&path.join("sub")).unwrap().unwrap();
        let added = tree.add(&folder, branch, &scratch, |_| Ok::<(), Error>(()));
        assert!(!scratch.exists());
        added.map(|_| folder)
    }

    #[test]
    fn work_tree_is_added_at_head_on_a_branch_of_its_own() {
        let (_folder, path) = repository();
        let added = add(&path, "one").unwrap();
        assert_eq!(fs::read(added.join("sub/file")).unwrap(), b"1\n");
        assert_eq!(git(&added, "rev-parse --abbrev-ref HEAD"), "one\n");
        assert_eq!(git(&added, "status --porcelain"), "");
        assert!(git(&path, "worktree list --porcelain").contains(&format!("worktree {}\n", added.display())));
        assert_eq!(git(&path, "fsck --no-dangling"), "");
        script(&added, "echo 2 > sub/file\ngit commit -qam 2");
        assert_eq!(git(&path, "show one:sub/file"), "2\n");
        let again = add(&path, "one").unwrap_err().to_string();
        assert!(again.contains("has a work tree of this name"), "{again}");
        assert!(add(&path, "main").is_err());
        script(&path, "git branch two\ngit worktree add -q ../elsewhere two");
        let elsewhere = add(&path, "two").unwrap_err().to_string();
        assert!(elsewhere.contains("has this branch in another work tree"), "{elsewhere}");
        // The branch stays when the work tree is removed, and is used again.
        script(&path, "git worktree remove ../app.worktrees/one");
        let again = add(&path, "one").unwrap();
        assert_eq!(fs::read(again.join("sub/file")).unwrap(), b"2\n");
        assert_eq!(git(&again, "status --porcelain"), "");
    }

    #[test]
    fn failed_check_leaves_nothing() {
        let (_folder, path) = repository();
        let before = git(&path, "for-each-ref");
        let tree = MainWorkTree::around(&path).unwrap().unwrap();
        let (added, scratch) = (path.with_file_name("one"), path.with_file_name("scratch"));
        let refuse = |folder: &Path| {
            assert_eq!(fs::read(folder.join("sub/file")).unwrap(), b"1\n");
            Err(tree.unsupported("is refused"))
        };
        assert!(tree.add(&added, "one", &scratch, refuse).unwrap_err().to_string().ends_with("is refused"));
        assert!(!added.exists() && !scratch.exists() && !path.join(".git/worktrees/one").exists());
        assert_eq!(git(&path, "for-each-ref"), before);
        let foreign = path.with_file_name(".one");
        fs::create_dir(&foreign).unwrap();
        let left_over = path.with_file_name(".one.sandbox-unfinished");
        fs::create_dir(&left_over).unwrap();
        fs::write(left_over.join("file"), "of a killed process").unwrap();
        tree.add(&added, "one", &scratch, |_| Ok::<(), Error>(())).unwrap();
        assert!(!added.join("file").exists() && !left_over.exists() && foreign.exists());
        script(&path, "git worktree remove ../one\ngit branch -D one");
        fs::create_dir(&added).unwrap();
        fs::write(added.join("file"), "kept").unwrap();
        assert!(tree.add(&added, "one", &scratch, |_| Ok::<(), Error>(())).is_err());
        assert_eq!(fs::read(added.join("file")).unwrap(), b"kept");
    }

    #[test]
    fn filters_of_a_repository_do_not_run() {
        let (folder, path) = repository();
        let ran = folder.path().canonicalize().unwrap().join("ran");
        let filter = |name: &[u8]| {
            let program = format!("\tsmudge = \"touch {}; cat\"\n", ran.display());
            [b"[filter \"", name, b"\"]\n", program.as_bytes()].concat()
        };
        let mut config = fs::read(path.join(".git/config")).unwrap();
        let includes = "[includeIf \"onbranch:t*\"]\n\tpath = more\n[includeIf \"gitdir:**/worktrees/**\"]\n\tpath = more\n";
        config.extend([filter(b"a=b"), filter(b"\xff"), includes.into()].concat());
        fs::write(path.join(".git/config"), config).unwrap();
        fs::write(path.join(".git/more"), filter(b"later")).unwrap();
        for (number, name) in [&b"a=b"[..], b"\xff", b"later"].into_iter().enumerate() {
            fs::write(path.join(".gitattributes"), [b"* filter=", name, b"\n"].concat()).unwrap();
            script(&path, "git add -A\n-git commit -qm next");
            let _ = fs::remove_file(&ran);
            let added = add(&path, &format!("t{number}")).unwrap();
            assert!(!ran.exists(), "a filter ran: {name:?}");
            assert_eq!(fs::read(added.join("sub/file")).unwrap(), b"1\n");
            script(&path, &format!("-git worktree add -q -b tc{number} ../tc{number}"));
            assert!(ran.exists(), "the control: git itself runs the filter {name:?}");
        }
    }

    #[test]
    fn hooks_of_a_repository_do_not_run() {
        let (folder, path) = repository();
        let ran = folder.path().canonicalize().unwrap().join("ran");
        fs::create_dir_all(path.join(".git/hooks")).unwrap();
        for name in ["post-checkout", "reference-transaction", "post-index-change"] {
            fs::write(path.join(".git/hooks").join(name), format!("#!/bin/sh\ntouch {}\n", ran.display()))
                .unwrap();
        }
        script(
            &path,
            &format!("chmod +x .git/hooks/*\ngit config core.fsmonitor 'touch {}; false'", ran.display()),
        );
        // Since git 2.54.
        for event in ["post-checkout", "reference-transaction", "post-index-change"] {
            let command = format!("git config hook.{event}.command 'touch {}'", ran.display());
            script(&path, &format!("git config hook.{event}.event {event}\n{command}"));
        }
        let _ = fs::remove_file(&ran);
        add(&path, "one").unwrap();
        assert!(!ran.exists(), "a hook ran");
        script(&path, "git worktree add -q ../two");
        assert!(ran.exists(), "the control: git itself runs the hooks");
    }

    #[test]
    fn branch_is_not_guessed() {
        let (_folder, path) = repository();
        script(&path, "echo 2 > sub/file\ngit commit -qam 2\ngit tag refs/heads/one HEAD~1");
        let id = git(&path, "rev-parse --short=7 HEAD~1");
        for name in ["one", &format!("v-g{}", id.trim())] {
            let added = add(&path, name).unwrap();
            assert_eq!(fs::read(added.join("sub/file")).unwrap(), b"2\n", "{name}");
            assert_eq!(git(&added, "status --porcelain"), "", "{name}");
        }
    }

    #[test]
    fn refs_and_objects_of_others_are_refused() {
        let (_folder, path) = repository();
        script(
            &path,
            "git branch taken/inner\ngit symbolic-ref refs/heads/symbolic refs/heads/main\ngit pack-refs --all",
        );
        for name in ["taken", "symbolic"] {
            assert!(add(&path, name).is_err(), "{name}");
            assert!(!path.with_file_name("app.worktrees").join(name).exists(), "{name}");
        }
        assert_eq!(
            git(&path, "for-each-ref --format=%(refname)"),
            "refs/heads/main\nrefs/heads/symbolic\nrefs/heads/taken/inner\n"
        );
        fs::write(path.join(".git/objects/info/alternates"), "/elsewhere\n").unwrap();
        assert!(add(&path, "one").unwrap_err().to_string().contains("objects of another repository"));
        fs::remove_file(path.join(".git/objects/info/alternates")).unwrap();
        let id = git(&path, "rev-parse HEAD:sub/file");
        let (start, rest) = id.trim().split_at(2);
        let object = path.join(".git/objects").join(start).join(rest);
        let elsewhere = path.with_file_name("blob");
        fs::rename(&object, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &object).unwrap();
        assert!(add(&path, "one").unwrap_err().to_string().contains("in the place of an object"));
    }

    #[test]
    fn branch_that_git_would_refuse_is_refused() {
        let (_folder, path) = repository();
        let packed = format!("{} refs/heads/lost\n", "1".repeat(40));
        fs::write(path.join(".git/packed-refs"), &packed).unwrap();
        assert!(add(&path, "lost").is_err(), "its commit is missing");
        assert!(!path.join(".git/refs/heads/lost").exists());
        assert_eq!(fs::read_to_string(path.join(".git/packed-refs")).unwrap(), packed);
        script(&path, "git branch rebased\nmkdir .git/rebase-merge");
        fs::write(path.join(".git/rebase-merge/head-name"), "refs/heads/rebased\n").unwrap();
        let error = add(&path, "rebased").unwrap_err().to_string();
        assert!(error.contains("has this branch in another work tree"), "{error}");
    }

    #[test]
    fn replaced_folder_is_neither_linked_nor_removed() {
        let (_folder, path) = repository();
        let elsewhere = path.with_file_name("elsewhere");
        fs::create_dir_all(elsewhere.join("one/sub")).unwrap();
        fs::write(elsewhere.join("one/sub/file"), "kept").unwrap();
        let (all, moved) = (path.with_file_name("app.worktrees"), path.with_file_name("moved"));
        let tree = MainWorkTree::around(&path).unwrap().unwrap();
        let swap = |_: &Path| {
            fs::rename(&all, &moved).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &all).unwrap();
            Ok::<(), Error>(())
        };
        let error = tree.add(&all.join("one"), "one", &path.with_file_name("scratch"), swap).unwrap_err();
        assert!(error.to_string().contains("was replaced while it was written"), "{error}");
        assert_eq!(fs::read(elsewhere.join("one/sub/file")).unwrap(), b"kept");
        assert!(!elsewhere.join("one/.git").exists() && !moved.join("one").exists());
        assert_eq!(git(&path, "for-each-ref --format=%(refname)"), "refs/heads/main\n");
    }

    #[test]
    fn links_on_the_way_are_not_followed() {
        let (folder, path) = repository();
        let elsewhere = folder.path().canonicalize().unwrap().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, path.with_file_name("app.worktrees")).unwrap();
        let error = add(&path, "one").unwrap_err().to_string();
        assert!(error.contains("is reached through a link"), "{error}");
        let target = elsewhere.join("file");
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, elsewhere.join("link")).unwrap();
        assert!(put(&elsewhere.join("link"), b"x").is_err());
        assert_eq!(fs::read(&target).unwrap(), b"kept");
    }

    #[test]
    fn other_kinds_of_folders_are_refused() {
        let (folder, path) = repository();
        assert!(MainWorkTree::around(folder.path()).unwrap().is_none());
        let added = add(&path, "one").unwrap();
        let linked = MainWorkTree::around(&added).unwrap_err().to_string();
        assert!(linked.ends_with("is not the main work tree of its repository"), "{linked}");
        let elsewhere = folder.path().canonicalize().unwrap().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(path.join(".git"), elsewhere.join(".git")).unwrap();
        assert!(MainWorkTree::around(&elsewhere).is_err());
        let empty = folder.path().canonicalize().unwrap().join("empty");
        fs::create_dir(&empty).unwrap();
        script(&empty, "git init -q .");
        let tree = MainWorkTree::around(&empty).unwrap().unwrap();
        let error =
            tree.add(&folder.path().join("x"), "x", &folder.path().join("s"), |_| Ok::<(), Error>(()));
        assert!(error.unwrap_err().to_string().ends_with("has no commit yet"));
    }
}
