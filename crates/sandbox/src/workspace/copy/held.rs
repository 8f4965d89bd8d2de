//! Why a change is held back: what programs of the host follow on their own, and links that lead out.

use std::io;
use std::path::{Component, Path};

use super::super::inventory::{Role, content, protected, text};
use super::super::judge;
use super::super::tree::{Facts, Kind, Tree};
use super::changes::{Comparison, HeldBack, Judge, target};
use super::xattr;

/// How much of a new folder is compared with the host's.
const MOST_COPIES: u32 = 1000;

impl Comparison {
    /// Whether what the task made of a protected path is what every repository has. `kind` is nothing where the task removed it.
    pub(super) fn is_harmless(&self, judge: &Judge<'_>, role: Role, path: &Path, kind: Option<Kind>) -> bool {
        match (role, kind) {
            (Role::Hooks, Some(Kind::Folder)) => self.has_samples_only(path),
            (Role::Hooks, None) => are_samples(&self.host, path),
            (Role::Steps | Role::Modules | Role::GitFile, None) => true,
            (Role::Configuration, Some(Kind::File)) => {
                let known = text(&self.host, path).unwrap_or_default();
                text(&self.upper, path).is_some_and(|text| {
                    [&self.upper, &self.host]
                        .iter()
                        .any(|tree| judge::is_harmless_configuration(tree, path, &text, &known))
                })
            }
            (Role::Pointer, Some(Kind::File)) if !judge.follows.is_configured => {
                let configuration = |folder: &Path| {
                    [&self.upper, &self.host].iter().find_map(|tree| {
                        tree.facts(&folder.join("HEAD")).ok()??;
                        Some(text(tree, &folder.join("config")).unwrap_or_default())
                    })
                };
                text(&self.upper, path)
                    .is_some_and(|text| judge::is_harmless_pointer(&self.host, path, &text, configuration))
            }
            (Role::Listed, Some(kind)) => self.is_copy_of_the_hosts(path, kind),
            (Role::Steps | Role::Modules, Some(Kind::File)) => {
                text(&self.upper, path).is_some_and(|text| judge::is_harmless_text(role, path, &text))
            }
            _ => false,
        }
    }

    /// Whether all that is new at `path` is what the host has under the same name further up, as a second work tree has.
    fn is_copy_of_the_hosts(&self, path: &Path, kind: Kind) -> bool {
        if !matches!(self.host.facts(path), Ok(None)) {
            return false;
        }
        let mut pending = vec![(path.to_owned(), kind)];
        let mut seen = 0;
        while let Some((path, kind)) = pending.pop() {
            seen += 1;
            let is_copy = match kind {
                Kind::Folder => self.upper.list(&path).is_ok_and(|entries| {
                    pending.extend(entries.into_iter().map(|(name, kind)| (path.join(name), kind)));
                    true
                }),
                Kind::File => self.has_same_further_up(&path),
                Kind::Link | Kind::Special => false,
            };
            if !is_copy || seen > MOST_COPIES {
                return false;
            }
        }
        true
    }

    fn has_same_further_up(&self, path: &Path) -> bool {
        let Ok(Some(now)) = self.upper.facts(path) else {
            return false;
        };
        let Some(new) = content(&self.upper, path, &now) else {
            return false;
        };
        let mut rest = path.components();
        while rest.next().is_some() && rest.clone().next().is_some() {
            let known = rest.as_path();
            if let Ok(Some(before)) = self.host.facts(known)
                && before.kind == Kind::File
                && before.mode == now.mode
                && content(&self.host, known, &before).as_ref() == Some(&new)
            {
                return true;
            }
        }
        false
    }

    /// Whether no hook comes, and none goes: a folder that hides the host's takes away what is in that.
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

    /// Why a folder of the host that makes place, if `before` is one, is held back for what is in it.
    pub(super) fn held_with(
        &self,
        judge: &Judge<'_>,
        path: &Path,
        before: Option<&Facts>,
    ) -> Option<HeldBack> {
        before.filter(|before| before.kind == Kind::Folder)?;
        if judge.follows.has_within(path) {
            return Some(HeldBack::Protected);
        }
        let mut pending = vec![path.to_owned()];
        while let Some(folder) = pending.pop() {
            let entries = self.host.list(&folder).unwrap_or_default();
            let judged = protected(judge.protection, &folder, &entries);
            for (name, kind) in entries {
                let inner = folder.join(&name);
                match (judged.roles.get(&name), kind) {
                    (Some(Role::Hooks), Kind::Folder) if are_samples(&self.host, &inner) => {}
                    (Some(Role::Steps | Role::Modules | Role::GitFile), _) => {}
                    (Some(_), _) => return Some(HeldBack::Protected),
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
                // After a name, which may be a link, nobody knows what is above.
                Component::ParentDir if depth > 0 && !below => depth -= 1,
                _ => return Ok(true),
            }
        }
        Ok(false)
    }
}

fn are_samples(tree: &Tree, hooks: &Path) -> bool {
    tree.list(hooks).is_ok_and(|entries| {
        entries.iter().all(|(name, kind)| {
            *kind == Kind::File
                && Path::new(name)
                    .extension()
                    .is_some_and(|extension| extension == "sample")
        })
    })
}
