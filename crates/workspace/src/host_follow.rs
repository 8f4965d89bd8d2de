//! Paths that host programs follow in a tree whose names are known: in a copy of it, changes to
//! them are withheld.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Kind, Tree};

use super::git_follow;
use super::links::follow;
use super::names::Names;
use super::protection::Protection;

/// Paths in a tree that git configurations and links at protected paths lead to.
#[derive(Debug, Default)]
pub(super) struct HostFollows {
    paths: BTreeSet<PathBuf>,
}

impl HostFollows {
    /// Finds them by the names in `tree`.
    pub(super) fn find(tree: &Tree, protection: &Protection, names: &Names) -> Self {
        let mut repositories = BTreeSet::new();
        let mut pointers = Vec::new();
        let mut links: Vec<PathBuf> = Vec::new();
        let kind = |path: &Path| tree.facts(path).ok().flatten().map(|facts| facts.kind);
        for path in names.iter() {
            // Splitting every path into components would be too slow for a hundred thousand.
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let folder = path.get(..path.len() - name.len()).unwrap_or_default();
            let folder = folder.strip_suffix(b"/").unwrap_or(folder);
            let is_hook = folder == b"hooks" || folder.ends_with(b"/hooks");
            let [path, folder] = [path, folder].map(|bytes| Path::new(OsStr::from_bytes(bytes)));
            let name = OsStr::from_bytes(name);
            let has = |name: &str| names.contains(&folder.join(name));
            if name == ".git" {
                match kind(path) {
                    Some(Kind::Folder) => drop(repositories.insert(path.to_owned())),
                    Some(_) => pointers.push(path.to_owned()),
                    None => {}
                }
            } else if name == "HEAD" && ((has("objects") && has("refs")) || has("commondir")) {
                repositories.insert(folder.to_owned());
            }
            if (is_hook || protection.covers(folder, name)) && kind(path) == Some(Kind::Link) {
                links.push(path.to_owned());
            }
        }
        let mut found = Self::default();
        if protection.has_defaults() {
            let (_, followed) = git_follow::followed(tree, &repositories, &pointers, None);
            links.extend(followed.into_keys());
        }
        for path in links {
            let way = follow(tree, &path);
            found.paths.extend(way.links);
            found.paths.extend(way.end.filter(|end| !end.as_os_str().is_empty()));
            found.paths.insert(path);
        }
        found
    }

    /// Whether `path` is followed, or is inside a followed path.
    pub(super) fn covers(&self, path: &Path) -> bool {
        !self.paths.is_empty() && path.ancestors().any(|part| self.paths.contains(part))
    }

    /// Whether a followed path is inside the folder `path`.
    pub(super) fn has_within(&self, path: &Path) -> bool {
        self.paths.range(path.to_owned()..).next().is_some_and(|found| found.starts_with(path))
    }
}
