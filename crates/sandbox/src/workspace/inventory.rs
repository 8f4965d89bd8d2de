//! What lies at the protected paths of a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::protection::Protection;
use super::tree::{Facts, Kind, Tree, is_absence};

/// Folders in a `.git` that hold nothing that git runs, and a great many files. What only looks like a repository may be anybody's folder.
const STORES: [&str; 4] = ["objects", "refs", "logs", "lfs"];
/// Package managers unpack here what others wrote, editors' settings included; nobody opens or enters it. Repositories still count.
const PACKAGES: [&str; 4] = ["node_modules", "site-packages", "target", "vendor"];
/// What its owner needs to list a folder, and to open what is in it.
const LIST_AND_ENTER: u32 = 0o500;
/// A configuration or link that is longer is none that git wrote.
const LONGEST_TEXT: u64 = 64 * 1024;

/// Why a path is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The hooks of a repository.
    Hooks,
    /// A configuration of a repository.
    Configuration,
    /// What says where the repository of a folder is: a `.git` that is no folder, `commondir`.
    Link,
    /// A path of the list.
    Listed,
}

/// A protected path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Top {
    pub(super) role: Role,
    pub(super) kind: Kind,
}

/// Something at or below a protected path that is no folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) role: Role,
    pub(super) facts: Facts,
    /// Of configurations: what they say.
    pub(super) text: String,
}

/// What could not be looked into. Two are the same when it is the same thing, closed in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closed {
    /// Device and number.
    identity: Option<((u32, u32), u64)>,
    /// Whether programs of this user may open what is in it all the same, when they know its name.
    pub(super) is_reachable: bool,
    /// Why it could not be looked into.
    pub(super) problem: String,
}

impl Closed {
    fn new(tree: &Tree, path: &Path, error: &io::Error) -> Self {
        let facts = tree.facts(path).ok().flatten();
        Self {
            identity: facts.map(|facts| (facts.stamp.device, facts.stamp.inode)),
            is_reachable: tree.can_be_entered(path).unwrap_or(true),
            problem: error.to_string(),
        }
    }
}

/// What lies at the protected paths of a tree. Paths are relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    pub(super) tops: BTreeMap<PathBuf, Top>,
    pub(super) leaves: BTreeMap<PathBuf, Leaf>,
    pub(super) repositories: BTreeSet<PathBuf>,
    pub(super) closed: BTreeMap<PathBuf, Closed>,
}

impl Inventory {
    /// Looks through all of `tree`.
    pub(super) fn take(tree: &Tree, protection: &Protection) -> Self {
        Self::look_through(tree, protection, None)
    }

    /// Looks through all of `tree` once more. A folder that was closed since is opened for its owner: only who may list it finds what
    /// is in it, but whoever may enter it opens a file whose name is known.
    pub(super) fn take_again(&self, tree: &Tree, protection: &Protection) -> Self {
        Self::look_through(tree, protection, Some(self))
    }

    fn look_through(tree: &Tree, protection: &Protection, before: Option<&Self>) -> Self {
        let mut inventory = Self::default();
        let mut pending = vec![PathBuf::new()];
        while let Some(folder) = pending.pop() {
            let entries = inventory.entries(tree, &folder, before);
            let found = protected(protection, &folder, &entries);
            if found.is_repository {
                inventory.repositories.insert(folder.clone());
            }
            for (name, kind) in entries {
                let path = folder.join(&name);
                match found.roles.get(&name) {
                    Some(&role) => inventory.add(tree, &path, Top { role, kind }, before),
                    None if kind == Kind::Folder && !found.is_store(&name) => pending.push(path),
                    None => {}
                }
            }
        }
        inventory
    }

    fn add(&mut self, tree: &Tree, path: &Path, top: Top, before: Option<&Self>) {
        let role = top.role;
        let mut pending = vec![(path.to_owned(), top.kind)];
        self.tops.insert(path.to_owned(), top);
        while let Some((path, kind)) = pending.pop() {
            if kind == Kind::Folder {
                let entries = self.entries(tree, &path, before);
                pending.extend(entries.into_iter().map(|(name, kind)| (path.join(name), kind)));
                continue;
            }
            match tree.facts(&path) {
                Ok(Some(facts)) => {
                    let text = match role {
                        Role::Configuration => text(tree, &path).unwrap_or_default(),
                        _ => String::new(),
                    };
                    self.leaves.insert(path, Leaf { role, facts, text });
                }
                Ok(None) => {}
                Err(error) => {
                    let closed = Closed::new(tree, &path, &error);
                    self.closed.insert(path, closed);
                }
            }
        }
    }

    /// What `folder` holds. Where that cannot be told, nothing, and it is noted.
    fn entries(&mut self, tree: &Tree, folder: &Path, before: Option<&Self>) -> Vec<(OsString, Kind)> {
        let error = match list(tree, folder) {
            Ok(entries) => return entries,
            Err(error) if is_absence(&error) => return Vec::new(),
            Err(error) => error,
        };
        let closed = Closed::new(tree, folder, &error);
        if before.is_some_and(|before| before.closed.get(folder) != Some(&closed))
            && tree.grant(folder, LIST_AND_ENTER).is_ok()
            && let Ok(entries) = list(tree, folder)
        {
            return entries;
        }
        tracing::debug!(folder = ?folder, %error, "cannot be looked into");
        self.closed.insert(folder.to_owned(), closed);
        Vec::new()
    }
}

/// The entries of a folder that can be entered too: of others it tells names, and nothing about what they are.
fn list(tree: &Tree, folder: &Path) -> io::Result<Vec<(OsString, Kind)>> {
    let entries = tree.list(folder)?;
    if tree.can_be_entered(folder)? {
        Ok(entries)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// What is protected of the entries of a folder.
pub(super) struct Protected {
    pub(super) is_repository: bool,
    has_stores: bool,
    pub(super) roles: BTreeMap<OsString, Role>,
}

impl Protected {
    fn is_store(&self, name: &OsStr) -> bool {
        self.has_stores && STORES.iter().any(|store| name == *store)
    }
}

/// Judges the entries of `folder`.
pub(super) fn protected(protection: &Protection, folder: &Path, entries: &[(OsString, Kind)]) -> Protected {
    let is_repository = protection.covers_repositories() && looks_like_repository(folder, entries);
    let is_in = |names: &[&str]| {
        folder
            .components()
            .any(|part| names.iter().any(|known| part.as_os_str() == *known))
    };
    let in_packages = is_in(&PACKAGES);
    let role = |name: &OsStr, kind: Kind| {
        let of_repository = is_repository.then(|| role_in_repository(name)).flatten();
        let link = protection.covers_repositories() && name == ".git" && kind != Kind::Folder;
        of_repository
            .or(link.then_some(Role::Link))
            .or_else(|| (!in_packages && protection.covers(folder, name)).then_some(Role::Listed))
    };
    Protected {
        is_repository,
        has_stores: is_repository && is_in(&[".git"]),
        roles: entries
            .iter()
            .filter_map(|(name, kind)| Some((name.clone(), role(name, *kind)?)))
            .collect(),
    }
}

/// As git looks for one: a folder `.git`, or a bare repository under any name.
fn looks_like_repository(folder: &Path, entries: &[(OsString, Kind)]) -> bool {
    let has = |name: &str| entries.iter().any(|(entry, _)| entry == name);
    folder.file_name() == Some(OsStr::new(".git"))
        || (has("HEAD") && ((has("objects") && has("refs")) || has("commondir")))
}

fn role_in_repository(name: &OsStr) -> Option<Role> {
    match name.to_str()? {
        "hooks" => Some(Role::Hooks),
        "config" | "config.worktree" => Some(Role::Configuration),
        "commondir" => Some(Role::Link),
        _ => None,
    }
}

/// A short text file.
pub(super) fn text(tree: &Tree, path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = tree.file(path).ok()?;
    file.take(LONGEST_TEXT + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= LONGEST_TEXT).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, path: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }

    #[test]
    fn finds_what_is_protected_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in [
            ".git/HEAD",
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/objects/ab/config",
            ".git/modules/sub/HEAD",
            ".git/modules/sub/objects/x",
            ".git/modules/sub/refs/x",
            ".git/modules/sub/config",
            ".git/worktrees/w/HEAD",
            ".git/worktrees/w/commondir",
            "sub/.git",
            "bare/HEAD",
            "bare/objects/x",
            "bare/refs/x",
            "bare/config",
            "src/config",
            "src/hooks/x",
            "src/.claude/a/b.json",
            "node_modules/x/.vscode/settings.json",
            "node_modules/x/.git/config",
            ".envrc",
            "main.rs",
        ] {
            write(root, path);
        }
        symlink("/tmp", root.join("src/.vscode")).unwrap();
        let inventory = Inventory::take(&Tree::open(root).unwrap(), &Protection::default());
        let leaves: Vec<&str> = inventory
            .leaves
            .keys()
            .map(|path| path.to_str().unwrap())
            .collect();
        let expected = [
            ".envrc",
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/modules/sub/config",
            ".git/worktrees/w/commondir",
            "bare/config",
            "node_modules/x/.git/config",
            "src/.claude/a/b.json",
            "src/.vscode",
            "sub/.git",
        ];
        assert_eq!(leaves, expected);
        let repositories: Vec<&str> = inventory
            .repositories
            .iter()
            .map(|path| path.to_str().unwrap())
            .collect();
        assert_eq!(
            repositories,
            [
                ".git",
                ".git/modules/sub",
                ".git/worktrees/w",
                "bare",
                "node_modules/x/.git"
            ]
        );

        let nothing = Inventory::take(&Tree::open(root).unwrap(), &Protection::none());
        assert_eq!(nothing, Inventory::default());
    }
}
