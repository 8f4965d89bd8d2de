//! A task's changes in its copy: the upper layer of an overlay compared with the host's tree.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Facts, Kind, Tree};
use sandbox_host_git::Left;

use super::super::error::WorkspaceError;
use super::super::git_view::is_repository;
use super::super::host_follow::HostFollows;
use super::super::inventory::{PRIVILEGES, makes_repository, protected};
use super::super::names::Names;
use super::super::protection::Protection;
use super::super::role::text;
use super::super::sparse::same_content;
use super::change::{Change, ChangeKind, EntryKind, Withheld};
use super::repositories::Repositories;
use super::xattr;

/// Deeper folders are not ordinary work on a tree, and too deep for other programs too.
const DEEPEST: usize = 200;
/// Bytes of a path that still leave room for a name in it: the kernel's limit is 4096.
const LONGEST: usize = 3800;

/// The two trees, and the record of the moment when they were equal.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) upper: Tree,
    pub(super) host: Tree,
    pub(super) names: Names,
    pub(super) since: (i64, u32),
    /// Paths that had changed on both sides already when the last task took the copy.
    pub(super) conflicts: BTreeSet<PathBuf>,
    /// The host's repositories, which are not compared.
    pub(super) repositories: Repositories,
}

/// The differences.
#[derive(Debug, Default)]
pub(super) struct Differences {
    pub(super) changes: Vec<Change>,
    /// Entries that make a folder a git work tree or repository, which are never applied.
    pub(super) left: Vec<Left>,
}

/// The rules for withholding changes.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub(super) protection: &'a Protection,
    pub(super) follows: HostFollows,
}

/// A folder that is still to be compared, and the reason why all of its content is withheld.
type Pending = (PathBuf, Option<Withheld>);

impl Comparison {
    /// The differences, before changes that belong together are combined.
    pub(super) fn differences(&self, protection: &Protection) -> Result<Differences, WorkspaceError> {
        let judge = &Judge { protection, follows: HostFollows::find(&self.host, protection, &self.names) };
        let mut found = Differences::default();
        let mut pending = vec![(PathBuf::new(), None)];
        while let Some((folder, held)) = pending.pop() {
            self.folder(judge, &folder, held, &mut found, &mut pending)?;
        }
        found.changes.sort_by(|a, b| a.path.cmp(&b.path));
        found.left.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Compares the entries of `folder`, which is in the upper layer. `held` is the reason why all
    /// of its content is withheld.
    fn folder(
        &self,
        judge: &Judge<'_>,
        folder: &Path,
        held: Option<Withheld>,
        found: &mut Differences,
        pending: &mut Vec<Pending>,
    ) -> Result<(), WorkspaceError> {
        if folder.components().count() > DEEPEST || folder.as_os_str().len() > LONGEST {
            return Err(WorkspaceError::unreadable(
                self.upper.path(),
                format!("its folders are deeper than {DEEPEST}, or their names longer than a path"),
            ));
        }
        let failed = |source| WorkspaceError::new("read", &self.upper.path().join(folder), source);
        let notes = self.upper.folder(folder).and_then(xattr::notes).map_err(failed)?;
        if notes.foreign {
            return Err(self.not_understood(folder));
        }
        let upper = self.upper.list(folder).map_err(failed)?;
        let below = self.host.list(folder).unwrap_or_default();
        let judged = protected(judge.protection, folder, &self.both(folder, &upper, &below));
        let is_completed = self.completes_repository(judge, folder, &judged, &below);
        let held_here = |name: &OsString, path: &Path, kind: Option<Kind>| {
            let completes =
                || is_completed && makes_repository(name) && below.iter().all(|(known, _)| known != name);
            let is_held = || judge.follows.covers(path) || completes();
            held.or_else(|| is_held().then_some(Withheld::Protected)).or_else(|| {
                let role = *judged.roles.get(name)?;
                (!self.is_harmless(judge, role, path, kind)).then_some(Withheld::Protected)
            })
        };
        for (name, kind) in &upper {
            let path = folder.join(name);
            if name == ".git" {
                self.git(&path, *kind, found)?;
                continue;
            }
            let is_new = || below.iter().all(|(known, _)| known != name);
            let is_folder = |(known, kind): &(OsString, Kind)| known == name && *kind == Kind::Folder;
            // The host removed it, and the task changed only repositories in it.
            if !below.iter().any(is_folder) && self.repositories.are_all_of(&path, &self.upper) {
                continue;
            }
            if *kind == Kind::Folder && is_new() && is_repository(&self.upper, &path) {
                self.repository(&path, found)?;
                continue;
            }
            let held = held_here(name, &path, (!self.is_removal(&path, *kind)).then_some(*kind));
            if self.entry(judge, &path, held, &mut found.changes)? == Kind::Folder {
                pending.push((path, held));
            }
        }
        if notes.opaque {
            let hidden = below.iter().filter(|(name, _)| upper.iter().all(|(known, _)| known != name));
            for (name, _) in hidden {
                let path = folder.join(name);
                if name == ".git" {
                    found.left.push(left(&path, "the task removed it"));
                    continue;
                }
                let held = held_here(name, &path, None);
                self.removed(judge, &path, held, &mut found.changes)?;
            }
        }
        Ok(())
    }

    /// Decides about the `.git` at `path` of the upper layer, whose content is not compared.
    fn git(&self, path: &Path, kind: Kind, found: &mut Differences) -> Result<(), WorkspaceError> {
        let failed = |source| WorkspaceError::new("read", path, source);
        let is_removed = self.is_removal(path, kind);
        let before = self.host.facts(path).map_err(failed)?;
        let content = |tree: &Tree| text(tree, path);
        let why = match (kind, before) {
            (Kind::Folder, Some(before)) if before.kind == Kind::Folder => {
                // Or it exists only for submodules.
                if self.repositories.contains(path) || self.repositories.are_all_of(path, &self.upper) {
                    return Ok(());
                }
                if self.host.facts(&path.join("HEAD")).map_err(failed)?.is_some() {
                    return Err(WorkspaceError::unreadable(
                        &self.upper.path().join(path),
                        "the task changed an unsupported repository",
                    ));
                }
                "the host has no repository there, but a folder that could be one"
            }
            (Kind::Folder, None) if self.repositories.is_unused(path, &self.upper) => return Ok(()),
            (Kind::Folder, None) if is_repository(&self.upper, path) => {
                return self.repository(path, found);
            }
            (Kind::Folder, None) => "it is not a valid repository",
            (Kind::Special, None) if is_removed => return Ok(()),
            (_, Some(_)) if is_removed => "the task removed it",
            (Kind::File, Some(before))
                if before.kind == Kind::File && content(&self.upper) == content(&self.host) =>
            {
                return Ok(());
            }
            (_, Some(_)) => "a task cannot decide which repository this folder is a work tree of",
            (Kind::File, None) => pointer(&content(&self.upper).unwrap_or_default()),
            (Kind::Link | Kind::Special, None) => "it is not a repository, and does not name one",
        };
        found.left.push(left(path, why));
        Ok(())
    }

    /// A repository that the task created: another one is created from its commits, on a person's
    /// request.
    fn repository(&self, path: &Path, found: &mut Differences) -> Result<(), WorkspaceError> {
        let now = self.upper.facts(path).map_err(|source| WorkspaceError::new("read", path, source))?;
        found.changes.push(Change {
            path: path.to_owned(),
            kind: ChangeKind::Added,
            entry: EntryKind::Folder,
            withheld: Some(Withheld::Repository),
            conflict: self.is_conflict(path, None),
            privileged: false,
            is_repository: true,
            before: None,
            now,
        });
        Ok(())
    }

    /// The names in `folder` of both layers, `upper` and `below`. A removed entry has its former
    /// kind.
    pub(super) fn both(
        &self,
        folder: &Path,
        upper: &[(OsString, Kind)],
        below: &[(OsString, Kind)],
    ) -> Vec<(OsString, Kind)> {
        let mut both: BTreeMap<OsString, Kind> = below.iter().cloned().collect();
        let stays = upper.iter().filter(|(name, kind)| !self.is_removal(&folder.join(name), *kind));
        both.extend(stays.cloned());
        both.into_iter().collect()
    }

    fn is_removal(&self, path: &Path, kind: Kind) -> bool {
        kind == Kind::Special
            && self.upper.facts(path).is_ok_and(|now| now.is_some_and(|now| now.is_whiteout))
    }

    /// Compares one entry of the upper layer; returns its kind there.
    fn entry(
        &self,
        judge: &Judge<'_>,
        path: &Path,
        held: Option<Withheld>,
        changes: &mut Vec<Change>,
    ) -> Result<Kind, WorkspaceError> {
        let failed = |source| WorkspaceError::new("read", path, source);
        let Some(now) = self.upper.facts(path).map_err(failed)? else {
            return Ok(Kind::Special);
        };
        if now.is_whiteout {
            self.removed(judge, path, held, changes)?;
            return Ok(Kind::Special);
        }
        let before = self.host.facts(path).map_err(failed)?;
        let same = match before {
            Some(before) if before.kind == now.kind => self.is_same(path, &before, &now)?,
            _ => false,
        };
        // The overlay also copies entries up that the task only opened for writing.
        if same {
            return Ok(now.kind);
        }
        let held = match now.kind {
            Kind::Folder | Kind::File => held,
            Kind::Link => {
                let leads_out = self.leads_out(path).map_err(failed)?;
                held.or(leads_out.then_some(Withheld::LeadsOut))
            }
            Kind::Special => Some(Withheld::Special),
        };
        changes.push(Change {
            path: path.to_owned(),
            kind: match before {
                Some(_) => ChangeKind::Modified,
                None => ChangeKind::Added,
            },
            entry: now.kind.into(),
            withheld: held.or_else(|| self.held_with(judge, path, before.as_ref())),
            conflict: self.is_conflict(path, before),
            privileged: now.kind == Kind::File && now.mode & PRIVILEGES != 0,
            is_repository: false,
            before,
            now: Some(now),
        });
        Ok(now.kind)
    }

    fn removed(
        &self,
        judge: &Judge<'_>,
        path: &Path,
        held: Option<Withheld>,
        changes: &mut Vec<Change>,
    ) -> Result<(), WorkspaceError> {
        let before = self.host.facts(path).map_err(|source| WorkspaceError::new("read", path, source))?;
        // The host removed it too: there is nothing to do.
        let Some(before) = before else {
            return Ok(());
        };
        changes.push(Change {
            path: path.to_owned(),
            kind: ChangeKind::Removed,
            entry: before.kind.into(),
            withheld: held.or_else(|| self.held_with(judge, path, Some(&before))),
            conflict: self.is_conflict(path, Some(before)),
            privileged: false,
            is_repository: false,
            before: Some(before),
            now: None,
        });
        Ok(())
    }

    fn is_same(&self, path: &Path, before: &Facts, now: &Facts) -> Result<bool, WorkspaceError> {
        let failed = |source| WorkspaceError::new("read", path, source);
        match now.kind {
            // Its content is compared separately.
            Kind::Folder => Ok(true),
            Kind::Link => {
                let (ours, theirs) = (target(&self.upper, path), target(&self.host, path));
                Ok(ours.map_err(failed)? == theirs.map_err(failed)?)
            }
            Kind::Special => Ok(false),
            Kind::File => {
                let file = self.upper.file(path).map_err(failed)?;
                if xattr::notes(&file).map_err(failed)?.foreign {
                    return Err(self.not_understood(path));
                }
                let other = self.host.file(path).map_err(failed)?;
                let executable = |facts: &Facts| facts.mode & 0o111 != 0;
                Ok(before.size == now.size
                    && executable(before) == executable(now)
                    && same_content(&file, &other).map_err(failed)?)
            }
        }
    }

    /// Whether the host's `path` differs from the version that the task saw. `now` is its present
    /// state.
    pub(super) fn is_conflict(&self, path: &Path, now: Option<Facts>) -> bool {
        if self.conflicts.contains(path) {
            return true;
        }
        let mut pending = vec![(path.to_owned(), now)];
        while let Some((path, now)) = pending.pop() {
            match (self.names.contains(&path), now) {
                (true, None) | (false, Some(_)) => return true,
                // A folder's own time changes with the names in it.
                (true, Some(facts)) if facts.kind == Kind::Folder => {
                    let entries = self.host.list(&path).unwrap_or_default();
                    pending.extend(entries.into_iter().map(|(name, _)| {
                        let inner = path.join(name);
                        let facts = self.host.facts(&inner).ok().flatten();
                        (inner, facts)
                    }));
                }
                (true, Some(facts)) if facts.stamp.changed > self.since => return true,
                (false, None) | (true, Some(_)) => {}
            }
        }
        false
    }

    fn not_understood(&self, path: &Path) -> WorkspaceError {
        WorkspaceError::unreadable(
            &self.upper.path().join(path),
            "the kernel wrote it with redirect_dir or metacopy, which cannot be applied; turn them off for the engine",
        )
    }
}

impl From<Kind> for EntryKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::File => Self::File,
            Kind::Folder => Self::Folder,
            Kind::Link => Self::Link,
            Kind::Special => Self::Special,
        }
    }
}

fn left(path: &Path, why: &str) -> Left {
    Left { path: path.display().to_string(), why: why.to_owned() }
}

/// The message about a `.git` that a task wrote in a folder where the host has none.
fn pointer(text: &[u8]) -> &'static str {
    let named = Path::new(OsStr::from_bytes(text));
    if named.iter().any(|part| part == "worktrees") {
        "a git work tree, whose branch is imported: `git worktree add FOLDER BRANCH` creates a work tree of it"
    } else if named.iter().any(|part| part == "modules") {
        "a submodule: `git submodule update --init` creates it, once its files are elsewhere"
    } else {
        "a task cannot decide which repository this folder is a work tree of"
    }
}

/// The target of the link `path`.
pub(super) fn target(tree: &Tree, path: &Path) -> io::Result<PathBuf> {
    tree.target(path)
}
