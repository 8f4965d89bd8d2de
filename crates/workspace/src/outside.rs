//! A work tree's repository that is stored outside it: that of a linked work tree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use sandbox_files::host_path::{Found, Resolver};
use sandbox_files::tree::{Kind, Tree};

use super::git_follow::{Pointer, plain, pointer, trimmed};
use super::guards;
use super::mount::Mount;
use super::protection::Protection;
use super::role::text;

/// The part of a repository that all its work trees share, if it is outside the one that a task
/// works on.
///
/// `git worktree add` creates such a work tree: its `.git` is a file that names `worktrees/NAME` in
/// the `.git` folder of the repository's main work tree.
///
/// ```no_run
/// use sandbox_files::host_path::Resolver;
/// use sandbox_workspace::{Mount, OutsideRepository, Protection};
/// use std::path::Path;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tree = Path::new("/srv/feature");
/// let mut mounts = vec![Mount::read_write(tree, "/workspace").protected(Protection::default().with_paths([".git".into()]))];
/// if let Some(repository) = OutsideRepository::of(tree, "/workspace", &Resolver::new([tree]))? {
///     mounts.push(repository.mount());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideRepository {
    folder: PathBuf,
    /// The path at which git in the container looks for it.
    container_path: String,
    /// The part that belongs to this work tree alone.
    own: PathBuf,
}

/// The reason why a task does not get the repository that the `.git` of its work tree names.
#[derive(Debug, thiserror::Error)]
#[error("`{}` names `{}` as its repository, {problem}", git_file.display(), named.display().to_string().escape_debug())]
pub struct OutsideRepositoryError {
    git_file: PathBuf,
    named: PathBuf,
    problem: String,
    hint: String,
}

impl OutsideRepositoryError {
    /// A fix for the user.
    #[must_use]
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

/// The content of a work tree's `.git`.
struct Named<'a> {
    git_file: PathBuf,
    path: PathBuf,
    resolver: &'a Resolver,
}

impl OutsideRepository {
    /// The repository of the work tree `tree`, which the container sees at `container_path`; `None`
    /// if git needs nothing outside `tree`, or finds nothing there on this host either.
    ///
    /// A task may have written the `.git` file. So the repository that it names counts only if that
    /// names this work tree too, as git does for each work tree of a repository, belongs to the
    /// same user, and is reached through no link that a task can have made.
    ///
    /// # Errors
    ///
    /// If it names something else, or the repository of a submodule.
    pub fn of(
        tree: &Path,
        container_path: &str,
        resolver: &Resolver,
    ) -> Result<Option<Self>, OutsideRepositoryError> {
        let Some(path) = named_outside(tree) else {
            return Ok(None);
        };
        let named = Named { git_file: tree.join(".git"), path, resolver };
        let own = match resolver.find(&named.path) {
            Ok(found) => found,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => {
                let problem = format!("which is not opened: {}", error.problem());
                return Err(named.refused(problem, MOUNT_IT));
            }
        };
        // It may be another name of the tree.
        if own.path().starts_with(tree) {
            return Ok(None);
        }
        named.check(tree, container_path, &own).map(Some)
    }

    /// The path at which git in the container looks for the part of a repository that the `.git` of
    /// `tree` names, if that is outside `tree`.
    #[must_use]
    pub fn place(tree: &Path, container_path: &str) -> Option<PathBuf> {
        place(tree, container_path, &named_outside(tree)?)
    }

    /// A view of it at the same path in the container, regardless of the mount of the work tree:
    /// other work trees share it.
    #[must_use]
    pub fn mount(&self) -> Mount {
        Mount::read_write(&self.folder, &self.container_path)
            .protected(Protection::default())
            .of_repository(self.own.clone())
    }

    /// A read-only mount of it.
    #[must_use]
    pub fn mount_read_only(&self) -> Mount {
        Mount::read_only_at(&self.folder, &self.container_path).protected(Protection::default())
    }

    /// A view of it, stored in `copy_dir` with the copy of its work tree.
    #[must_use]
    pub fn copied(&self, copy_dir: &Path) -> Mount {
        let folder = super::copy::git_folder(copy_dir);
        Mount::copy_on_write(&self.folder, &self.container_path, folder).of_repository(self.own.clone())
    }

    /// Its path on the host.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name of the work tree's folder in its `worktrees`.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        self.own.file_name().unwrap_or_default()
    }

    /// Its path in the container.
    #[must_use]
    pub fn container_path(&self) -> &str {
        &self.container_path
    }
}

const MOUNT_IT: &str = "mount the repository yourself, with `--mount`, at the path in its `.git`";
const REPAIR: &str = "`git worktree repair` in the main work tree corrects it; where this folder is a copy \
                      of a work tree, remove `.git`";

impl Named<'_> {
    fn refused(&self, problem: impl Into<String>, hint: impl Into<String>) -> OutsideRepositoryError {
        let (git_file, named) = (self.git_file.clone(), self.path.clone());
        OutsideRepositoryError { git_file, named, problem: problem.into(), hint: hint.into() }
    }

    fn check(
        &self,
        tree: &Path,
        container_path: &str,
        own: &Found,
    ) -> Result<OutsideRepository, OutsideRepositoryError> {
        let unreadable =
            |error: &dyn std::fmt::Display| self.refused(format!("which cannot be read: {error}"), MOUNT_IT);
        let own_tree = Tree::open(own.path()).map_err(|error| unreadable(&error))?;
        if own_tree.identity().map_err(|error| unreadable(&error))? != own.identity() {
            return Err(unreadable(&"another folder has replaced it"));
        }
        let Some(common) = text(&own_tree, Path::new("commondir")) else {
            return Err(self.refused(
                "which is not that of a linked work tree",
                "of a submodule: run in the repository that it is a part of; else: ".to_owned() + MOUNT_IT,
            ));
        };
        let folder = own.path().ancestors().nth(2);
        let is_usual = trimmed(&common) == b"../.."
            && own.path().parent().and_then(Path::file_name) == Some(OsStr::new("worktrees"));
        let (Some(folder), true) = (folder, is_usual) else {
            return Err(self.refused("which is not `worktrees/NAME` of a repository", MOUNT_IT));
        };
        let back = text(&own_tree, Path::new("gitdir")).unwrap_or_default();
        let back = own.path().join(OsStr::from_bytes(trimmed(&back)));
        // A task may have written `.git`: any folder that it names could otherwise be mounted.
        let names_this = match (self.resolver.find(&back), self.resolver.find(&self.git_file)) {
            (Ok(back), Ok(file)) => back.identity() == file.identity(),
            _ => false,
        };
        if !names_this {
            let back = back.display().to_string();
            return Err(self.refused(format!("which belongs to `{}`", back.escape_debug()), REPAIR));
        }
        let common = Tree::open(folder).map_err(|error| unreadable(&error))?;
        let is = |name: &str, kind: Kind| {
            common.facts(Path::new(name)).is_ok_and(|facts| facts.is_some_and(|facts| facts.kind == kind))
        };
        if !(is("HEAD", Kind::File) && is("objects", Kind::Folder) && is("refs", Kind::Folder)) {
            return Err(self.refused("which is not in a repository", MOUNT_IT));
        }
        self.check_owner(tree, &[&own_tree, &common])?;
        let place = place(tree, container_path, &self.path);
        let place =
            place.and_then(|place| place.ancestors().nth(2).and_then(Path::to_str).map(str::to_owned));
        let Some(place) = place.filter(|place| !place.contains([':', ',', '\0']) && place != "/") else {
            return Err(self.refused("a path that cannot be mounted", "rename it: no `:` and no `,`"));
        };
        // One mount would hide the other.
        if Path::new(&place).starts_with(container_path) {
            let problem = format!("and the container has the work tree there, at `{container_path}`");
            return Err(self.refused(problem, "move the repository or the work tree to another folder"));
        }
        if tree.starts_with(folder) {
            let problem = "which contains the work tree itself, with all its neighbours";
            return Err(self.refused(problem, "`git worktree move` it out of the repository's folder"));
        }
        let own_part = own.path().strip_prefix(folder).unwrap_or(Path::new("")).to_owned();
        Ok(OutsideRepository { folder: folder.to_owned(), container_path: place, own: own_part })
    }

    fn check_owner(&self, tree: &Path, folders: &[&Tree]) -> Result<(), OutsideRepositoryError> {
        let owner = |tree: &Tree| tree.listing(Path::new("")).ok().map(|listing| listing.facts.uid);
        let work_tree = Tree::open(tree).ok().and_then(|tree| owner(&tree));
        let user = geteuid();
        let is_callers = |uid: u32| uid == user.as_raw() || user.is_root();
        let is_good =
            work_tree.is_some_and(is_callers) && folders.iter().all(|folder| owner(folder) == work_tree);
        if is_good {
            return Ok(());
        }
        Err(self.refused(
            "which belongs to another user than this work tree, or than you",
            format!("give both the same owner; else {MOUNT_IT}"),
        ))
    }
}

/// Stand-ins at the container paths that the repositories of `mounts` name as the `.git` of their
/// work trees, if nothing else is there: `git worktree prune`, and with it `git gc`, forgets a work
/// tree that is missing, including the task's own.
pub(super) fn stand_ins(mounts: &[Mount]) -> Vec<Mount> {
    let places = mounts.iter().filter_map(|mount| {
        let own = mount.own_part()?;
        let named = text(&mount.tree().ok()?, &own.join("gitdir"))?;
        let named = Path::new(OsStr::from_bytes(trimmed(&named)));
        let place = plain(&Path::new(mount.container_path()).join(own).join(named))?;
        let is_apart = |other: &Mount| {
            !place.starts_with(other.container_path())
                && !Path::new(other.container_path()).starts_with(&place)
        };
        mounts.iter().all(is_apart).then_some(())?;
        guards::nothing_at(place.to_str()?)
    });
    places.collect()
}

/// The repository that `.git` of `tree` names, if that is a file and names a path outside it.
fn named_outside(tree: &Path) -> Option<PathBuf> {
    let tree = Tree::open(tree).ok()?;
    let git = Path::new(".git");
    if tree.facts(git).ok()??.kind != Kind::File {
        return None;
    }
    match pointer(&tree, Path::new(""), &text(&tree, git)?, b"gitdir: ") {
        Some(Pointer::Outside(path)) => Some(path),
        Some(Pointer::Inside(_)) | None => None,
    }
}

/// The container path of `named`, as named by the `.git` of `tree`.
fn place(tree: &Path, container_path: &str, named: &Path) -> Option<PathBuf> {
    match named.strip_prefix(tree) {
        // A relative path starts in the work tree there too.
        Ok(relative) => plain(&Path::new(container_path).join(relative)),
        Err(_) => plain(named),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Work trees of a repository, as git creates them.
    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new() -> Self {
            let fixture = Self(tempfile::tempdir().unwrap());
            for repository in ["m/.git", "other/.git", "bare"] {
                fixture.write(&format!("{repository}/HEAD"), "ref: refs/heads/main\n");
                fs::create_dir_all(fixture.at(repository).join("refs")).unwrap();
                fs::create_dir_all(fixture.at(repository).join("objects")).unwrap();
            }
            fixture.linked("m/.git", "w");
            fixture
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn linked(&self, repository: &str, tree: &str) {
            let name = Path::new(tree).file_name().unwrap().display();
            let own = format!("{repository}/worktrees/{name}");
            self.write(&format!("{tree}/.git"), &format!("gitdir: {}\n", self.at(&own).display()));
            self.write(&format!("{own}/commondir"), "../..\n");
            self.write(&format!("{own}/gitdir"), &format!("{}\n", self.at(tree).join(".git").display()));
        }

        fn of(&self, tree: &str) -> Result<Option<OutsideRepository>, OutsideRepositoryError> {
            let tree = self.at(tree);
            OutsideRepository::of(&tree, "/workspace", &Resolver::new([&tree]))
        }
    }

    #[test]
    fn repository_of_a_linked_work_tree_is_mounted_where_git_looks() {
        let fixture = Fixture::new();
        let found = fixture.of("w").unwrap().unwrap();
        let place = fixture.at("m/.git").display().to_string();
        assert_eq!(
            (found.folder(), found.container_path()),
            (fixture.at("m/.git").as_path(), place.as_str())
        );
        assert!(!found.mount().read_only() && found.mount_read_only().read_only());
        fixture.write("w/.git", "gitdir: ../m/.git/worktrees/w\n");
        assert_eq!(fixture.of("w").unwrap().unwrap().container_path(), "/m/.git", "relative to /workspace");
        let place = OutsideRepository::place(&fixture.at("w"), "/workspace");
        assert_eq!(place.as_deref(), Some(Path::new("/m/.git/worktrees/w")));
    }

    #[test]
    fn moved_work_tree_has_a_stand_in_where_its_repository_looks() {
        let fixture = Fixture::new();
        let repository = fixture.of("w").unwrap().unwrap();
        let places = |tree: Mount, repository: Mount| -> Vec<String> {
            let stand_ins = stand_ins(&[tree, repository]).into_iter();
            stand_ins.map(|mount| mount.container_path().to_owned()).collect()
        };
        let at = fixture.at("w/.git").display().to_string();
        let elsewhere = || Mount::read_write(fixture.at("w"), "/workspace");
        assert_eq!(places(elsewhere(), repository.mount()), [at.as_str()]);
        assert_eq!(places(elsewhere(), repository.copied(&fixture.at("copy"))), [at.as_str()]);
        assert_eq!(places(elsewhere(), repository.mount_read_only()), [""; 0]);
        let same = Mount::read_write(fixture.at("w"), fixture.at("w").display().to_string());
        assert_eq!(places(same, repository.mount()), [""; 0]);
    }

    #[test]
    fn outside_repository_is_none_if_git_needs_or_finds_nothing_there() {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.at("plain/.git")).unwrap();
        fs::create_dir_all(fixture.at("none")).unwrap();
        fixture.write("inside/.git", "gitdir: sub/repository\n");
        fixture.write("gone/.git", &format!("gitdir: {}\n", fixture.at("m/.git/worktrees/gone").display()));
        fixture.write("odd/.git", "what\n");
        for tree in ["plain", "none", "inside", "gone", "odd"] {
            assert_eq!(fixture.of(tree).unwrap(), None, "{tree}");
        }
    }

    #[test]
    fn pointer_that_a_task_could_have_written_leads_to_no_other_repository() {
        let fixture = Fixture::new();
        fixture.linked("other/.git", "others");
        let own = |path: &str| format!("gitdir: {}\n", fixture.at(path).display());
        let refused = |what: &str, text: &str, why: &str| {
            fixture.write("w/.git", text);
            let error = fixture.of("w").unwrap_err();
            assert!(error.to_string().contains(why) && !error.hint().is_empty(), "{what}: {error}");
        };
        refused("another's", &own("other/.git/worktrees/others"), "which belongs to");
        refused("a main work tree's", &own("other/.git"), "which is not that of a linked work tree");
        fixture.write("m/.git/modules/s/config", "[core]\n worktree = ../../../s\n");
        refused("a submodule's", &own("m/.git/modules/s"), "which is not that of a linked work tree");
        // A folder that only looks like a repository.
        for (path, text) in [("commondir", "../..\n".to_owned()), ("gitdir", own("w/.git")[8..].to_owned())] {
            fixture.write(&format!("home/worktrees/w/{path}"), &text);
        }
        refused("no repository", &own("home/worktrees/w"), "which is not in a repository");
        fixture.write("m/.git/worktrees/w/commondir", &fixture.at("other/.git").display().to_string());
        refused("another's objects", &own("m/.git/worktrees/w"), "which is not `worktrees/NAME`");
        fixture.write("m/.git/worktrees/w/commondir", "../..\n");
        std::os::unix::fs::symlink(fixture.at("m"), fixture.at("w/link")).unwrap();
        refused("a link of the task's", "gitdir: ../w/link/.git/worktrees/w\n", "which is not opened");
        fixture.write("w/.git", &own("m/.git/worktrees/w"));
        assert!(fixture.of("w").unwrap().is_some(), "the control");
        fixture.linked("bare", "bare/inner");
        let error = fixture.of("bare/inner").unwrap_err().to_string();
        assert!(error.contains("which contains the work tree itself"), "{error}");
    }
}
