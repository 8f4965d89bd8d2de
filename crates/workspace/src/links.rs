//! Resolves symbolic links within a tree.

use sandbox_files::tree::{Kind, Tree};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The kernel's own limit.
const MOST_LINKS: usize = 40;

/// The links and the end of a path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// The links on the way, in the tree.
    pub(super) links: Vec<PathBuf>,
    /// The final path, which need not exist; `None` outside the tree.
    pub(super) end: Option<PathBuf>,
}

/// Resolves `path`, relative to `tree`, as host programs do.
pub(super) fn follow(tree: &Tree, path: &Path) -> Way {
    let mut way = Way::default();
    let mut rest = parts(path);
    let mut at = PathBuf::new();
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            if !at.pop() {
                return way;
            }
            continue;
        }
        let next = at.join(&part);
        let is_link = matches!(tree.facts(&next), Ok(Some(facts)) if facts.kind == Kind::Link);
        if !is_link {
            at = next;
            continue;
        }
        let target = tree.target(&next);
        way.links.push(next);
        let Ok(target) = target else { return way };
        let onward = if target.is_absolute() {
            let Ok(inner) = target.strip_prefix(tree.path()) else {
                return way;
            };
            at = PathBuf::new();
            parts(inner)
        } else {
            parts(&target)
        };
        if way.links.len() >= MOST_LINKS {
            return way;
        }
        rest = onward.into_iter().chain(rest).collect();
    }
    way.end = Some(at);
    way
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

/// `path`, relative to the folder `from` of a tree at `root` or absolute, as a path in that tree.
/// `None` if it leads out, or depends on the parent of a name, which may be a link.
pub(super) fn within(root: &Path, from: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = from.to_owned();
    let path = if path.is_absolute() {
        at = PathBuf::new();
        path.strip_prefix(root).ok()?
    } else {
        path
    };
    let mut below = false;
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if !below => {
                if !at.pop() {
                    return None;
                }
            }
            Component::Normal(name) => {
                below = true;
                at.push(name);
            }
            _ => return None,
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn followed_path_has_every_link_and_ends_in_the_tree_or_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("a", root.join("l")).unwrap();
        symlink("../l/b/new", root.join("a/m")).unwrap();
        symlink(root.join("a"), root.join("absolute")).unwrap();
        symlink("/etc", root.join("out")).unwrap();
        symlink("self", root.join("self")).unwrap();
        let tree = Tree::open(&root).unwrap();
        for (path, links, end) in [
            ("a/b", &[][..], Some("a/b")),
            ("a/m", &["a/m", "l"], Some("a/b/new")),
            ("absolute/b", &["absolute"], Some("a/b")),
            ("out/x", &["out"], None),
            ("a/../../x", &[], None),
            ("missing/x", &[], Some("missing/x")),
        ] {
            let way = follow(&tree, Path::new(path));
            let found: Vec<&str> = way.links.iter().map(|it| it.to_str().unwrap()).collect();
            assert_eq!((found.as_slice(), way.end.as_deref()), (links, end.map(Path::new)), "{path}");
        }
        assert_eq!(follow(&tree, Path::new("self")).end, None);
    }

    #[test]
    fn path_outside_the_tree_is_none() {
        for (from, path, expected) in [
            ("m", "../.git/modules/m", Some(".git/modules/m")),
            ("m", "/root/x", Some("x")),
            ("m", "/rooted", None),
            ("m", "../../x", None),
            ("m", "a/../x", None),
            ("", "./x", Some("x")),
        ] {
            let found = within(Path::new("/root"), Path::new(from), Path::new(path));
            assert_eq!(found.as_deref(), expected.map(Path::new), "{from} {path}");
        }
    }
}
