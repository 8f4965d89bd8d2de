//! What a task changed in its copy: the upper layer of an overlay against the host's tree.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Facts, Kind, Tree};

use super::super::error::WorkspaceError;
use super::super::git_index::digest;
use super::super::host_follow::HostFollows;
use super::super::inventory::{makes_repository, protected};
use super::super::names::Names;
use super::super::protection::Protection;
use super::super::role::{Role, text};
use super::super::sparse::same_content;
use super::change::{Change, ChangeKind, EntryKind, HeldBack};
use super::setting_change::{self, SettingChange};
use super::xattr;

/// What lies deeper is no work on a tree, and too deep for other programs too.
const DEEPEST: usize = 200;
/// Bytes of a path that still leave room for a name in it: the kernel takes 4096.
const LONGEST: usize = 3800;

/// The two trees, and what is known of the moment when they were the same.
#[derive(Debug)]
pub(super) struct Comparison {
    /// Where the tree is, seen from the work tree: only a repository outside of that is not it.
    pub(super) place: &'static str,
    pub(super) upper: Tree,
    pub(super) host: Tree,
    pub(super) names: Names,
    pub(super) since: (i64, u32),
    /// What had changed on both sides already when the last task took the copy up.
    pub(super) conflicts: BTreeSet<PathBuf>,
    /// What git's indexes said at that moment: looking at a work tree is enough for git to write its index again.
    pub(super) indexes: BTreeMap<PathBuf, String>,
}

/// What is held back.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub(super) protection: &'a Protection,
    pub(super) follows: HostFollows,
}

/// A folder that is still to be compared, and why all that is in it is held back.
type Pending = (PathBuf, Option<HeldBack>);

impl Comparison {
    /// Without regard to what belongs together.
    pub(super) fn changes(&self, protection: &Protection) -> Result<Vec<Change>, WorkspaceError> {
        let judge = &Judge { protection, follows: HostFollows::find(&self.host, protection, &self.names) };
        let mut changes = Vec::new();
        let mut pending = vec![(PathBuf::new(), None)];
        while let Some((folder, held)) = pending.pop() {
            self.folder(judge, &folder, held, &mut changes, &mut pending)?;
        }
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(changes)
    }

    /// Compares the entries of `folder`, which the upper layer has. `held` is why all that is in it is held back.
    fn folder(
        &self,
        judge: &Judge<'_>,
        folder: &Path,
        held: Option<HeldBack>,
        changes: &mut Vec<Change>,
        pending: &mut Vec<Pending>,
    ) -> Result<(), WorkspaceError> {
        if folder.components().count() > DEEPEST || folder.as_os_str().len() > LONGEST {
            return Err(WorkspaceError::unreadable(
                self.upper.path(),
                format!("its folders are deeper than {DEEPEST}, or their names longer than a path"),
            ));
        }
        let known = changes.len();
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
            let is_held =
                || judge.follows.covers(path) || completes() || replaces_pointer(judge, name, kind, &below);
            held.or_else(|| is_held().then_some(HeldBack::Protected)).or_else(|| {
                let role = *judged.roles.get(name)?;
                (!self.is_harmless(judge, role, path, kind)).then_some(HeldBack::Protected)
            })
        };
        for (name, kind) in &upper {
            let path = folder.join(name);
            let held = held_here(name, &path, (!self.is_removal(&path, *kind)).then_some(*kind));
            if self.entry(judge, &path, held, changes)? == Kind::Folder {
                pending.push((path, held));
            }
        }
        if notes.opaque {
            let hidden = below.iter().filter(|(name, _)| upper.iter().all(|(known, _)| known != name));
            for (name, _) in hidden {
                let path = folder.join(name);
                let held = held_here(name, &path, None);
                self.removed(judge, &path, held, changes)?;
            }
        }
        let role = |change: &Change| judged.roles.get(change.path.file_name()?);
        for change in changes.iter_mut().skip(known).filter(|it| role(it) == Some(&Role::Configuration)) {
            change.settings = self.settings(change);
        }
        Ok(())
    }

    /// What differs in a configuration of git.
    fn settings(&self, change: &Change) -> Vec<SettingChange> {
        // Git reads nothing for a file that is not there. A link is read too.
        let read = |tree: &Tree, facts: Option<Facts>| match facts {
            None => Some(Vec::new()),
            Some(_) => text(tree, &change.path),
        };
        let (before, now) = (read(&self.host, change.before), read(&self.upper, change.now));
        setting_change::changed(before.as_deref(), now.as_deref())
    }

    /// The names in `folder` of both layers, `upper` and `below`. What is removed counts as what it was.
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

    /// Compares one entry of the upper layer; returns what it is there.
    fn entry(
        &self,
        judge: &Judge<'_>,
        path: &Path,
        held: Option<HeldBack>,
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
        if same {
            return Ok(now.kind);
        }
        let held = match now.kind {
            Kind::Folder | Kind::File => held,
            Kind::Link => {
                let leads_out = self.leads_out(path).map_err(failed)?;
                held.or(leads_out.then_some(HeldBack::LeadsOut))
            }
            Kind::Special => Some(HeldBack::Special),
        };
        changes.push(Change {
            path: path.to_owned(),
            kind: match before {
                Some(_) => ChangeKind::Modified,
                None => ChangeKind::Added,
            },
            entry: now.kind.into(),
            held_back: held.or_else(|| self.held_with(judge, path, before.as_ref())),
            conflict: self.is_conflict(path, before),
            privileged: now.kind == Kind::File && now.mode & 0o6000 != 0,
            before,
            now: Some(now),
            settings: Vec::new(),
        });
        Ok(now.kind)
    }

    fn removed(
        &self,
        judge: &Judge<'_>,
        path: &Path,
        held: Option<HeldBack>,
        changes: &mut Vec<Change>,
    ) -> Result<(), WorkspaceError> {
        let before = self.host.facts(path).map_err(|source| WorkspaceError::new("read", path, source))?;
        // Gone from the host too: nothing is left to do.
        let Some(before) = before else {
            return Ok(());
        };
        changes.push(Change {
            path: path.to_owned(),
            kind: ChangeKind::Removed,
            entry: before.kind.into(),
            held_back: held.or_else(|| self.held_with(judge, path, Some(&before))),
            conflict: self.is_conflict(path, Some(before)),
            privileged: false,
            before: Some(before),
            now: None,
            settings: Vec::new(),
        });
        Ok(())
    }

    fn is_same(&self, path: &Path, before: &Facts, now: &Facts) -> Result<bool, WorkspaceError> {
        let failed = |source| WorkspaceError::new("read", path, source);
        match now.kind {
            // What is in it is compared by itself.
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

    /// Whether the host's `path` is no longer what the task saw. `now` is what it is.
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
                (true, Some(facts)) if facts.stamp.changed > self.since => {
                    let before = self.indexes.get(&path);
                    if before.is_none() || before != digest(&self.host, &path).as_ref() {
                        return true;
                    }
                }
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

/// Whether the task made a repository of its own in the place of what says where that of a folder is. `below` is what the host has there.
fn replaces_pointer(
    judge: &Judge<'_>,
    name: &OsString,
    kind: Option<Kind>,
    below: &[(OsString, Kind)],
) -> bool {
    judge.protection.has_defaults()
        && name == ".git"
        && kind == Some(Kind::Folder)
        && below.iter().any(|(known, kind)| known == name && *kind != Kind::Folder)
}

/// Where the link `path` leads.
pub(super) fn target(tree: &Tree, path: &Path) -> io::Result<PathBuf> {
    tree.target(path)
}
