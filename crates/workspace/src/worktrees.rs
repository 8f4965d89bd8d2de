//! Linked work trees of the host whose repository a task has: git in the task must not take them for gone.
//!
//! `git worktree prune`, and `git gc` with it, forget each work tree whose `.git` file is not where the repository says. So there is
//! something at each of these places, which lie outside of what the task sees.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sandbox_files::host_path::Identity;
use sandbox_files::tree::{Kind, Tree};

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
    let place = place.to_str().filter(|_| is_its_own)?;
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
}
