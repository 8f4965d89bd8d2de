//! Linked work trees of the host whose repository a task has: git in the task must not take them for gone.
//!
//! `git worktree prune`, and `git gc` with it, forget each work tree whose `.git` file is not where the repository says. So there is
//! something at each of these places, which lie outside of what the task sees. And work trees that the task adds are known to the host's
//! git afterwards by their paths there.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use sandbox_files::Replacement;
use sandbox_files::host_path::Identity;
use sandbox_files::tree::{Kind, Tree};

use super::copy::overlay_folders;
use super::git_follow::{outside_text, plain, trimmed};
use super::guards::NOTHING;
use super::mount::Mount;
use super::role::text;

/// What is beyond is left to `git worktree lock`.
const MOST: usize = 100;

/// What lies in the container where linked work trees have their `.git`, as the repositories of `mounts` say: an empty device, which git
/// neither follows nor replaces.
pub(super) fn stand_ins(mounts: &[Mount]) -> Vec<Mount> {
    let Ok(nothing) = fs::File::open(NOTHING).and_then(Identity::of) else {
        return Vec::new();
    };
    let mut places: Vec<String> = Vec::new();
    for mount in mounts.iter().filter(|mount| !mount.read_only()) {
        let Ok(tree) = mount.tree() else { continue };
        for git in [Path::new(".git"), Path::new("")] {
            for name in names(&tree, git) {
                let place = place(&tree, mount, &git.join("worktrees").join(name));
                let is_free = |place: &String| {
                    !places.contains(place)
                        && mounts.iter().all(|mount| is_apart(place, mount.container_path()))
                };
                match place.filter(is_free) {
                    Some(_) if places.len() >= MOST => {
                        tracing::warn!(repository = %tree.path().display(), "it has more than {MOST} linked work trees: `git worktree prune` in the task forgets the rest");
                        break;
                    }
                    Some(place) => places.push(place),
                    None => {}
                }
            }
        }
    }
    places.into_iter().map(|place| Mount::read_only_at(NOTHING, place).of(nothing)).collect()
}

/// A folder that a task changed.
#[derive(Debug)]
pub(super) struct Changed {
    /// Where its changes are: the folder itself, or what lies over it in a copy.
    written: PathBuf,
    host: PathBuf,
    container: PathBuf,
}

impl Changed {
    pub(super) fn of(mount: &Mount) -> Option<Self> {
        let upper = mount.copy_dir().map(|dir| overlay_folders(dir).0);
        (!mount.read_only()).then(|| Self {
            written: upper.unwrap_or_else(|| mount.host_path().to_owned()),
            host: mount.host_path().to_owned(),
            container: mount.container_path().into(),
        })
    }

    pub(super) fn is_of_copy(&self) -> bool {
        self.written != self.host
    }
}

/// Makes the work trees that the task added to repositories in `changed` work on the host: git wrote the container's paths.
pub(super) fn settle(changed: &[Changed]) {
    for repository in changed {
        let Ok(tree) = Tree::open(&repository.written) else { continue };
        for git in [Path::new(".git"), Path::new("")] {
            let entries = tree.list(&git.join("worktrees")).unwrap_or_default();
            for (name, _) in entries.iter().filter(|(_, kind)| *kind == Kind::Folder) {
                let own = git.join("worktrees").join(name);
                if let Some(Err(error)) = settle_one(changed, repository, &tree, &own) {
                    tracing::warn!(%error, "a work tree that the task added is unknown to git on this host; `git worktree repair PATH` corrects that");
                }
            }
        }
    }
}

/// The same of the work tree whose part of the repository is `own`; `None` where that names none in `changed` which names it.
fn settle_one(changed: &[Changed], repository: &Changed, tree: &Tree, own: &Path) -> Option<io::Result<()>> {
    let back = own.join("gitdir");
    let named = text(tree, &back)?;
    let named = Path::new(OsStr::from_bytes(trimmed(&named)));
    let around = changed.iter().filter(|around| named.starts_with(&around.container));
    let around = around.max_by_key(|around| around.container.as_os_str().len())?;
    let git_file = named.strip_prefix(&around.container).ok()?;
    let is_plain = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    let work_tree = git_file.parent().filter(|folder| !folder.as_os_str().is_empty() && is_plain(folder))?;
    let its_tree = Tree::open(&around.written).ok()?;
    let text = text(&its_tree, git_file)?;
    let forth = Path::new(OsStr::from_bytes(trimmed(text.strip_prefix(b"gitdir: ")?)));
    if git_file.file_name() != Some(OsStr::new(".git")) || forth != repository.container.join(own) {
        return None;
    }
    // Relative where that is the same inside and outside.
    let forth = if around.host == repository.host {
        work_tree.components().map(|_| "..").collect::<PathBuf>().join(own)
    } else {
        repository.host.join(own)
    };
    let forth = [b"gitdir: ", forth.as_os_str().as_bytes(), b"\n"].concat();
    let home = [around.host.join(git_file).as_os_str().as_bytes(), b"\n"].concat();
    Some(write(&its_tree, git_file, &forth).and_then(|()| write(tree, &back, &home)))
}

fn write(tree: &Tree, path: &Path, text: &[u8]) -> io::Result<()> {
    let (folder, name) = tree.parent(path)?;
    let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    Replacement::shared(0o644).write_in(&folder, name, text).map(drop)
}

/// The linked work trees that the repository `git` of `tree` knows.
fn names(tree: &Tree, git: &Path) -> Vec<std::ffi::OsString> {
    if !matches!(tree.facts(&git.join("HEAD")), Ok(Some(facts)) if facts.kind == Kind::File) {
        return Vec::new();
    }
    let entries = tree.list(&git.join("worktrees")).unwrap_or_default();
    entries.into_iter().filter(|(_, kind)| *kind == Kind::Folder).map(|(name, _)| name).collect()
}

/// Where git in the container looks for the `.git` of the work tree of `own`, if the host has one there that names `own`.
fn place(tree: &Tree, mount: &Mount, own: &Path) -> Option<String> {
    let named = text(tree, &own.join("gitdir"))?;
    let named = Path::new(OsStr::from_bytes(trimmed(&named)));
    if named.file_name() != Some(OsStr::new(".git")) {
        return None;
    }
    let host = tree.path().join(own);
    let git_file = plain(&host.join(named))?;
    let back = outside_text(&git_file)?;
    let back = Path::new(OsStr::from_bytes(trimmed(back.strip_prefix(b"gitdir: ")?)));
    let is_its_own = git_file.parent()?.join(back).canonicalize().ok()? == host.canonicalize().ok()?;
    let place = plain(&Path::new(mount.container_path()).join(own).join(named))?;
    let place = place.to_str().filter(|place| is_its_own && !place.contains([':', ',']))?;
    Some(place.to_owned())
}

fn is_apart(place: &str, other: &str) -> bool {
    !Path::new(place).starts_with(other) && !Path::new(other).starts_with(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_trees_that_are_there_have_a_stand_in() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let at = |path: &str| root.join(path).display().to_string();
        write("tree/.git/HEAD", "ref: refs/heads/main\n");
        for (name, git_file, back) in [
            ("good", "good/.git", "tree/.git/worktrees/good"),
            ("gone", "gone/.git", ""),
            ("other", "other/.git", "tree/.git/worktrees/good"),
            ("inner", "tree/inner/.git", "tree/.git/worktrees/inner"),
            ("odd", "odd/x", "tree/.git/worktrees/odd"),
        ] {
            write(&format!("tree/.git/worktrees/{name}/gitdir"), &format!("{}\n", at(git_file)));
            if !back.is_empty() {
                write(git_file, &format!("gitdir: {}\n", at(back)));
            }
        }
        let places = |mounts: &[Mount]| -> Vec<String> {
            let mut places: Vec<String> =
                stand_ins(mounts).iter().map(|mount| mount.container_path().to_owned()).collect();
            places.sort();
            places
        };
        let tree = Mount::read_write(at("tree"), "/workspace");
        assert_eq!(places(std::slice::from_ref(&tree)), [at("good/.git"), at("tree/inner/.git")]);
        let covering = Mount::read_only_at(at("good"), at("good"));
        assert_eq!(places(&[tree, covering]), [at("tree/inner/.git")]);
        assert_eq!(places(&[Mount::read_only_at(at("tree"), "/workspace")]), [""; 0]);
        let git_folder = Mount::copy_on_write(at("tree/.git"), at("tree/.git"), at("copy"));
        assert_eq!(places(&[git_folder]), [at("good/.git"), at("tree/inner/.git")]);
    }

    #[test]
    fn a_work_tree_that_a_task_added_has_the_hosts_paths() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        for (name, back, git_file, forth) in [
            ("in", "/workspace/a/in/.git", "a/in/.git", "/workspace/.git/worktrees/in"),
            ("another", "/workspace/b/.git", "b/.git", "/workspace/.git/worktrees/in"),
            ("climbs", "/workspace/../x/.git", "../x/.git", "/workspace/.git/worktrees/climbs"),
            ("gone", "/workspace/c/.git", "", ""),
        ] {
            write(&format!("tree/.git/worktrees/{name}/gitdir"), &format!("{back}\n"));
            if !git_file.is_empty() {
                write(&format!("tree/{git_file}"), &format!("gitdir: {forth}\n"));
            }
        }
        let tree = Mount::read_write(root.join("tree"), "/workspace");
        settle(&[Changed::of(&tree).unwrap()]);
        assert_eq!(read("tree/a/in/.git"), "gitdir: ../../.git/worktrees/in\n");
        assert_eq!(read("tree/.git/worktrees/in/gitdir"), format!("{}/tree/a/in/.git\n", root.display()));
        assert_eq!(read("tree/b/.git"), "gitdir: /workspace/.git/worktrees/in\n");
        assert_eq!(read("x/.git"), "gitdir: /workspace/.git/worktrees/climbs\n");
        assert_eq!(read("tree/.git/worktrees/gone/gitdir"), "/workspace/c/.git\n");

        write("m/worktrees/n/gitdir", "/workspace/n/.git\n");
        write("tree/n/.git", "gitdir: /m/worktrees/n\n");
        let repository = Mount::read_write(root.join("m"), "/m");
        settle(&[&tree, &repository].map(|mount| Changed::of(mount).unwrap()));
        assert_eq!(read("tree/n/.git"), format!("gitdir: {}/m/worktrees/n\n", root.display()));
        assert_eq!(read("m/worktrees/n/gitdir"), format!("{}/tree/n/.git\n", root.display()));
    }
}
