//! The entries at the protected paths of a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Facts, InodeStamp, Kind, Listing, Tree, is_absence};

use super::git_follow::{self, Rules};
use super::known_files::KnownFile;
use super::links::follow;
use super::protection::Protection;
use super::role::{Role, text};

/// Package managers unpack third-party files here, including editor settings; users do not open or
/// enter these folders. Repositories in them still count.
const PACKAGES: [&str; 4] = ["node_modules", "site-packages", "target", "vendor"];
/// The folders with most of a repository's files. Git chooses their names.
const STORES: [&str; 4] = ["lfs", "logs", "objects", "refs"];
/// The permissions that the owner needs to list a folder and to open its entries.
const LIST_AND_ENTER: u32 = 0o500;
/// Bytes of protected files that are kept for restoring.
const MOST_KEPT: u64 = 32 * 1024 * 1024;
/// Set-user-id and set-group-id.
pub(super) const PRIVILEGES: u32 = 0o6000;
const SET_GROUP_ID: u32 = 0o2000;

/// A protected path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Top {
    pub(super) role: Role,
    pub(super) kind: Kind,
}

/// A file's content or a link's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    File(Vec<u8>),
    Link(PathBuf),
}

/// An entry at or below a protected path that is not a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) role: Role,
    pub(super) facts: Facts,
    /// The content before a run, to compare and restore it. `None` for large files.
    pub(super) content: Option<Content>,
}

/// A file that a program reads implicitly, and that everyday work changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) tool: &'static str,
    pub(super) facts: Facts,
    /// The content before a run, to compare it.
    pub(super) content: Option<Content>,
}

/// A path that is not accessible. Two are equal if they are the same entry, closed in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closed {
    /// Device and number.
    identity: Option<((u32, u32), u64)>,
    /// Whether this user's programs can still open entries in it by name.
    pub(super) is_reachable: bool,
    /// The reason why it is not accessible.
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

/// The entries at the protected paths of a tree. Paths are relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    pub(super) tops: BTreeMap<PathBuf, Top>,
    pub(super) leaves: BTreeMap<PathBuf, Leaf>,
    pub(super) repositories: BTreeSet<PathBuf>,
    pub(super) closed: BTreeMap<PathBuf, Closed>,
    /// Paths that configurations and links lead to, which need not exist.
    pub(super) followed: BTreeMap<PathBuf, Role>,
    pub(super) inputs: BTreeMap<PathBuf, Input>,
    pub(super) sockets: BTreeMap<PathBuf, InodeStamp>,
    /// Folders whose new files inherit their group; after a run, also files with such permissions.
    pub(super) privileged: BTreeMap<PathBuf, Facts>,
    rules: Rules,
}

impl Inventory {
    /// Searches all of `tree`.
    pub(super) fn take(tree: &Tree, protection: &Protection) -> Self {
        Survey::new(tree, protection, None).finish()
    }

    /// Searches all of `tree` again. It opens folders that were closed meanwhile for their owner:
    /// only a user who may list such a folder finds its entries, but any user who may enter it
    /// opens a file by a known name. It skips the stored data of repositories in the folders
    /// `untouched`, where no task could write.
    pub(super) fn take_again(&self, tree: &Tree, protection: &Protection, untouched: &[&Path]) -> Self {
        Survey { untouched, ..Survey::new(tree, protection, Some(self)) }.finish()
    }

    /// The Unix sockets of `tree`, and nothing else.
    pub(super) fn sockets_of(tree: &Tree, protection: &Protection) -> BTreeMap<PathBuf, InodeStamp> {
        let mut survey = Survey::new(tree, protection, None);
        survey.walk();
        survey.found.sockets
    }

    fn is_covered(&self, path: &Path) -> bool {
        path.ancestors().any(|part| self.tops.contains_key(part))
    }
}

/// An inventory in progress.
struct Survey<'a> {
    tree: &'a Tree,
    protection: &'a Protection,
    before: Option<&'a Inventory>,
    /// Folders that the task has views of, or as read-only mounts.
    untouched: &'a [&'a Path],
    found: Inventory,
    /// Bytes that may still be kept.
    room: u64,
}

impl<'a> Survey<'a> {
    fn new(tree: &'a Tree, protection: &'a Protection, before: Option<&'a Inventory>) -> Self {
        Self { tree, protection, before, untouched: &[], found: Inventory::default(), room: MOST_KEPT }
    }

    fn finish(mut self) -> Inventory {
        self.walk();
        if self.protection.has_defaults() {
            self.follow_git();
        }
        self.follow_links();
        self.found
    }

    fn walk(&mut self) {
        let mut pending = vec![PathBuf::new()];
        while let Some(folder) = pending.pop() {
            let Some(listing) = self.listing(&folder) else {
                continue;
            };
            if listing.facts.mode & SET_GROUP_ID != 0 {
                self.found.privileged.insert(folder.clone(), listing.facts);
            }
            let around = self.protection.reports_all_in(&folder);
            let judged = protected(self.protection, &folder, &listing.entries);
            if judged.is_repository {
                self.found.repositories.insert(folder.clone());
            }
            let is_untouched =
                judged.is_repository && self.untouched.iter().any(|top| folder.starts_with(top));
            for (name, kind) in &listing.entries {
                let path = folder.join(name);
                if let Some(&role) = judged.roles.get(name) {
                    self.look_at(&listing, &path, *kind, None);
                    self.add(&path, role, *kind);
                    continue;
                }
                if *kind == Kind::Folder {
                    if !is_untouched || STORES.iter().all(|store| name != *store) {
                        pending.push(path);
                    }
                } else {
                    let known = around.or_else(|| self.protection.reports(&folder, name));
                    let known = known.filter(|_| !is_in_packages(&folder, name));
                    self.look_at(&listing, &path, *kind, known);
                }
            }
        }
    }

    /// Records an entry that is not a folder, if it must be reported.
    fn look_at(&mut self, listing: &Listing, path: &Path, kind: Kind, known: Option<&KnownFile>) {
        if !self.protection.has_defaults() {
            return;
        }
        // Before a run, the permissions of files do not matter.
        let has_rights = kind == Kind::File && self.before.is_some();
        if known.is_none() && kind != Kind::Special && !has_rights {
            return;
        }
        let name = path.file_name().unwrap_or_default();
        let Ok(Some(facts)) = listing.facts_of(name) else {
            return;
        };
        let path = path.to_owned();
        if has_rights && facts.mode & PRIVILEGES != 0 {
            self.found.privileged.insert(path.clone(), facts);
        }
        if facts.is_socket {
            self.found.sockets.insert(path.clone(), facts.stamp);
        }
        if let Some(KnownFile { tool, .. }) = known {
            let content = self.kept(&path, &facts);
            self.found.inputs.insert(path, Input { tool, facts, content });
        }
    }

    /// Adds a protected path with its content.
    fn add(&mut self, path: &Path, role: Role, kind: Kind) {
        let mut pending = vec![(path.to_owned(), kind)];
        self.found.tops.insert(path.to_owned(), Top { role, kind });
        while let Some((path, kind)) = pending.pop() {
            if kind == Kind::Folder {
                if let Some(listing) = self.listing(&path) {
                    for (name, kind) in &listing.entries {
                        let inner = path.join(name);
                        self.look_at(&listing, &inner, *kind, None);
                        pending.push((inner, *kind));
                    }
                }
                continue;
            }
            match self.tree.facts(&path) {
                Ok(Some(facts)) => {
                    let content = self.kept(&path, &facts);
                    self.found.leaves.insert(path, Leaf { role, facts, content });
                }
                Ok(None) => {}
                Err(error) => {
                    let closed = Closed::new(self.tree, &path, &error);
                    self.found.closed.insert(path, closed);
                }
            }
        }
    }

    /// The content of a file that is kept before a run.
    fn kept(&mut self, path: &Path, facts: &Facts) -> Option<Content> {
        if self.before.is_some() || facts.size > self.room {
            return None;
        }
        let content = content(self.tree, path, facts)?;
        self.room = self.room.saturating_sub(facts.size);
        Some(content)
    }

    /// Adds the paths that git follows because of its configuration.
    fn follow_git(&mut self) {
        let found = &self.found;
        let links: Vec<PathBuf> =
            found.tops.keys().filter(|path| path.file_name() == Some(OsStr::new(".git"))).cloned().collect();
        let known = self.before.map(|before| &before.rules);
        let (rules, followed) = git_follow::followed(self.tree, &found.repositories, &links, known);
        self.found.rules = rules;
        let before = self.before.map(|before| before.followed.clone()).unwrap_or_default();
        for (path, role) in followed.into_iter().chain(before) {
            self.add_followed(path, role);
        }
    }

    /// Adds the targets of links at protected paths. After a run, a changed link is moved away,
    /// wherever it leads.
    fn follow_links(&mut self) {
        if self.before.is_some() {
            return;
        }
        let is_followed = |leaf: &Leaf| {
            leaf.facts.kind == Kind::Link && !matches!(leaf.role, Role::GitFile | Role::Pointer)
        };
        let leaves = self.found.leaves.iter().filter(|(_, leaf)| is_followed(leaf));
        let links: Vec<(PathBuf, Role)> = leaves.map(|(path, leaf)| (path.clone(), leaf.role)).collect();
        for (path, role) in links {
            self.add_followed(path, role);
        }
    }

    fn add_followed(&mut self, path: PathBuf, role: Role) {
        let way = follow(self.tree, &path);
        for link in way.links {
            if !self.found.is_covered(&link) {
                self.add(&link, role, Kind::Link);
            }
        }
        if let Some(end) = way.end {
            self.add_end(end, role);
        }
        self.found.followed.insert(path, role);
    }

    fn add_end(&mut self, path: PathBuf, role: Role) {
        let is_around_others = path.as_os_str().is_empty()
            || self.found.repositories.iter().any(|repository| repository.starts_with(&path));
        if is_around_others {
            tracing::debug!(path = %path.display().to_string().escape_debug(), "too much is in it to be protected");
            return;
        }
        if !self.found.is_covered(&path)
            && let Ok(Some(facts)) = self.tree.facts(&path)
        {
            self.add(&path, role, facts.kind);
        }
        self.found.followed.insert(path, role);
    }

    /// The entries of `folder`; `None` if they cannot be determined, which is recorded.
    fn listing(&mut self, folder: &Path) -> Option<Listing> {
        let error = match self.tree.listing(folder) {
            Ok(listing) => return Some(listing),
            Err(error) if is_absence(&error) => return None,
            Err(error) => error,
        };
        let closed = Closed::new(self.tree, folder, &error);
        if self.before.is_some_and(|before| before.closed.get(folder) != Some(&closed))
            && self.tree.grant(folder, LIST_AND_ENTER).is_ok()
            && let Ok(listing) = self.tree.listing(folder)
        {
            return Some(listing);
        }
        tracing::debug!(folder = ?folder, %error, "failed to search a folder");
        self.found.closed.insert(folder.to_owned(), closed);
        None
    }
}

/// The protected entries of a folder.
pub(super) struct Protected {
    pub(super) is_repository: bool,
    pub(super) roles: BTreeMap<OsString, Role>,
}

/// Classifies the entries of `folder`.
pub(super) fn protected(protection: &Protection, folder: &Path, entries: &[(OsString, Kind)]) -> Protected {
    let is_repository = protection.has_defaults() && looks_like_repository(folder, entries);
    let is_gits_own = is_repository || (protection.has_defaults() && is_in_git(folder));
    let role = |name: &OsStr, kind: Kind| {
        // This covers paths that the caller named, not those that every repository may have.
        let by_its_path = protection.is_path(&folder.join(name)).then_some(Role::Listed);
        let of_repository = || is_repository.then(|| role_in_repository(name)).flatten();
        by_its_path
            .or_else(of_repository)
            .or_else(|| is_gits_own.then(|| role_in_git(folder, name, kind)).flatten())
            .or_else(|| protection.has_defaults().then(|| role_in_work_tree(name, kind)).flatten())
            .or_else(|| {
                (protection.covers(folder, name) && !is_in_packages(folder, name)).then_some(Role::Listed)
            })
    };
    Protected {
        is_repository,
        roles: entries.iter().filter_map(|(name, kind)| Some((name.clone(), role(name, *kind)?))).collect(),
    }
}

/// Whether a path is among packages, where only files that Python runs implicitly count.
pub(super) fn is_in_packages(folder: &Path, name: &OsStr) -> bool {
    let runs_by_itself = || {
        Path::new(name).extension().is_some_and(|extension| extension == "pth")
            || name == "sitecustomize.py"
            || name == "usercustomize.py"
    };
    let is_in =
        |names: &[&str]| folder.components().any(|part| names.iter().any(|known| part.as_os_str() == *known));
    is_in(&PACKAGES) && !(folder.file_name() == Some(OsStr::new("site-packages")) && runs_by_itself())
}

/// Whether `path` is a `.git`, or is inside one.
pub(super) fn is_in_git(path: &Path) -> bool {
    path.iter().any(|part| part == ".git")
}

/// Whether `name` is one of those by which git recognises a repository.
pub(super) fn makes_repository(name: &OsStr) -> bool {
    ["HEAD", "objects", "refs", "commondir"].iter().any(|known| name == *known)
}

/// Recognises a repository as git does: a folder `.git`, or a bare repository under any name.
fn looks_like_repository(folder: &Path, entries: &[(OsString, Kind)]) -> bool {
    let has = |name: &str| entries.iter().any(|(entry, _)| entry == name);
    folder.file_name() == Some(OsStr::new(".git"))
        || (has("HEAD") && ((has("objects") && has("refs")) || has("commondir")))
}

fn role_in_repository(name: &OsStr) -> Option<Role> {
    match name.to_str()? {
        "hooks" => Some(Role::Hooks),
        "config" | "config.worktree" => Some(Role::Configuration),
        "commondir" => Some(Role::Pointer),
        // Git looked for remotes here before it had configurations, and still does.
        "remotes" | "branches" => Some(Role::Listed),
        _ => None,
    }
}

/// The role of an entry inside a `.git`, at any depth.
fn role_in_git(folder: &Path, name: &OsStr, kind: Kind) -> Option<Role> {
    let around = |above: &str| folder.file_name() == Some(OsStr::new(above));
    let is_worktree = folder.parent().and_then(Path::file_name) == Some(OsStr::new("worktrees"));
    match (kind, name.to_str()) {
        // Even without a `HEAD` next to them, which a later run may add.
        (Kind::File, Some("gitdir" | "commondir")) if is_worktree => Some(Role::Pointer),
        (Kind::File, Some("git-rebase-todo" | "strategy")) if around("rebase-merge") => Some(Role::GitFile),
        (Kind::File, Some("todo")) if around("sequencer") => Some(Role::GitFile),
        // The host's git finds objects of any repository there, and an import would treat them as
        // present.
        (Kind::File, Some("alternates" | "http-alternates")) if folder.ends_with("objects/info") => {
            Some(Role::Pointer)
        }
        (Kind::Link, _) => Some(Role::GitFile),
        // Git's own watcher listens here.
        (Kind::Special, name) if name != Some("fsmonitor--daemon.ipc") => Some(Role::GitFile),
        _ => None,
    }
}

fn role_in_work_tree(name: &OsStr, kind: Kind) -> Option<Role> {
    match name.to_str()? {
        ".git" if kind != Kind::Folder => Some(Role::Pointer),
        ".gitmodules" if matches!(kind, Kind::File | Kind::Link) => Some(Role::Modules),
        _ => None,
    }
}

/// The content of a short file, or the target of a link.
pub(super) fn content(tree: &Tree, path: &Path, facts: &Facts) -> Option<Content> {
    match facts.kind {
        Kind::File => text(tree, path).map(Content::File),
        Kind::Link => tree.target(path).ok().map(Content::Link),
        Kind::Folder | Kind::Special => None,
    }
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
    fn inventory_has_exactly_the_protected_entries() {
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
        let leaves: Vec<&str> = inventory.leaves.keys().map(|path| path.to_str().unwrap()).collect();
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
        let repositories: Vec<&str> =
            inventory.repositories.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            repositories,
            [".git", ".git/modules/sub", ".git/worktrees/w", "bare", "node_modules/x/.git"]
        );

        let nothing = Inventory::take(&Tree::open(root).unwrap(), &Protection::none());
        assert_eq!(nothing, Inventory::default());
    }
}
