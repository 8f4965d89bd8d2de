//! Decides why a change is withheld: host programs follow it implicitly, or it is a link that leads
//! out.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use sandbox_files::tree::{Facts, Kind, Tree};

use super::super::git_config::are_plain_modules;
use super::super::inventory::{Protected, content, protected};
use super::super::judge;
use super::super::role::{Role, text};
use super::change::Withheld;
use super::changes::{Comparison, Judge, target};
use super::xattr;

/// How many entries of a new folder are compared with the host's.
const MOST_COPIES: u32 = 1000;

impl Comparison {
    /// Whether a task's change at a protected path is one that every repository has. `kind` is
    /// `None` if the task removed the entry.
    pub(super) fn is_harmless(&self, judge: &Judge<'_>, role: Role, path: &Path, kind: Option<Kind>) -> bool {
        match (role, kind) {
            (Role::Hooks, Some(Kind::Folder)) => self.has_samples_only(path),
            (Role::Hooks, None) => are_samples(&self.host, path),
            (Role::Modules, None) => true,
            (Role::Listed, Some(kind)) => self.is_copy_of_the_hosts(judge, path, kind),
            (Role::Modules, Some(Kind::File)) => {
                text(&self.upper, path).is_some_and(|text| are_plain_modules(&text))
            }
            _ => false,
        }
    }

    /// Whether the task turns a folder into a repository in which the host has parts of one that
    /// are not harmless. An earlier run may have created these: they were not checked as a
    /// repository's then. `below` are the host's entries in `folder`.
    pub(super) fn completes_repository(
        &self,
        judge: &Judge<'_>,
        folder: &Path,
        judged: &Protected,
        below: &[(OsString, Kind)],
    ) -> bool {
        if !judged.is_repository {
            return false;
        }
        let before = protected(judge.protection, folder, below);
        let is_harmless = |role: Role, path: &Path, kind: Kind| {
            role == Role::Hooks && kind == Kind::Folder && are_samples(&self.host, path)
        };
        !before.is_repository
            && below.iter().any(|(name, kind)| {
                let role = judged.roles.get(name).filter(|role| before.roles.get(name) != Some(role));
                role.is_some_and(|role| !is_harmless(*role, &folder.join(name), *kind))
            })
    }

    /// Whether all new entries at `top` are also at a protected path of the same name further up,
    /// as in a second work tree. Entries at other paths of the host prove nothing: a task may have
    /// written them.
    fn is_copy_of_the_hosts(&self, judge: &Judge<'_>, top: &Path, kind: Kind) -> bool {
        let (Ok(None), Some(folder), Some(name)) = (self.host.facts(top), top.parent(), top.file_name())
        else {
            return false;
        };
        let mut known = Vec::new();
        let mut above = folder.components();
        while above.next().is_some() {
            if judge.protection.covers(above.as_path(), name) {
                known.push(above.as_path().join(name));
            }
        }
        let mut pending = vec![(top.to_owned(), kind)];
        let mut seen = 0;
        while let Some((path, kind)) = pending.pop() {
            seen += 1;
            let is_copy = match kind {
                Kind::Folder => self.upper.list(&path).is_ok_and(|entries| {
                    pending.extend(entries.into_iter().map(|(name, kind)| (path.join(name), kind)));
                    true
                }),
                Kind::File => known.iter().any(|known| {
                    let inner = path.strip_prefix(top).unwrap_or(Path::new(""));
                    // Without a trailing slash if the path is the protected one itself.
                    let known = known.components().chain(inner.components()).collect::<PathBuf>();
                    self.is_same_as_the_hosts(&path, &known)
                }),
                Kind::Link | Kind::Special => false,
            };
            if !is_copy || seen > MOST_COPIES {
                return false;
            }
        }
        true
    }

    fn is_same_as_the_hosts(&self, path: &Path, known: &Path) -> bool {
        let (Ok(Some(now)), Ok(Some(before))) = (self.upper.facts(path), self.host.facts(known)) else {
            return false;
        };
        let new = content(&self.upper, path, &now);
        (before.kind, before.mode) == (Kind::File, now.mode)
            && new.is_some()
            && new == content(&self.host, known, &before)
    }

    /// Whether no hook is added or removed: a folder that hides the host's removes its content.
    fn has_samples_only(&self, hooks: &Path) -> bool {
        let stays = match self.host.facts(hooks) {
            Ok(None) => true,
            Ok(Some(before)) if before.kind == Kind::Folder => {
                let notes = self.upper.folder(hooks).and_then(xattr::notes);
                notes.is_ok_and(|notes| !notes.opaque) || are_samples(&self.host, hooks)
            }
            _ => false,
        };
        stays && are_samples(&self.upper, hooks)
    }

    /// The reason why replacing a host folder, if `before` is one, is withheld because of its
    /// content.
    pub(super) fn held_with(
        &self,
        judge: &Judge<'_>,
        path: &Path,
        before: Option<&Facts>,
    ) -> Option<Withheld> {
        before.filter(|before| before.kind == Kind::Folder)?;
        if judge.follows.has_within(path) {
            return Some(Withheld::Protected);
        }
        let mut pending = vec![path.to_owned()];
        while let Some(folder) = pending.pop() {
            let entries = self.host.list(&folder).unwrap_or_default();
            let judged = protected(judge.protection, &folder, &entries);
            for (name, kind) in entries {
                let inner = folder.join(&name);
                match (judged.roles.get(&name), kind) {
                    (Some(Role::Hooks), Kind::Folder) if are_samples(&self.host, &inner) => {}
                    (Some(Role::Modules | Role::GitFile), _) => {}
                    (Some(_), _) => return Some(Withheld::Protected),
                    (None, Kind::Folder) => pending.push(inner),
                    (None, _) => {}
                }
            }
        }
        None
    }

    /// Whether the link `path` leads out of the tree.
    pub(super) fn leads_out(&self, path: &Path) -> io::Result<bool> {
        let mut depth = path.components().count() - 1;
        let mut below = false;
        for part in target(&self.upper, path)?.components() {
            match part {
                Component::CurDir => {}
                Component::Normal(_) => below = true,
                // After a name, which may be a link, the parent is unknown.
                Component::ParentDir if depth > 0 && !below => depth -= 1,
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

fn are_samples(tree: &Tree, hooks: &Path) -> bool {
    tree.list(hooks).is_ok_and(|entries| {
        entries.iter().all(|(name, kind)| *kind == Kind::File && judge::is_sample(Path::new(name)))
    })
}
