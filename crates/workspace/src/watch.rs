//! Protects a mount during a run: read-only mounts over existing entries, and a comparison after
//! the run.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbox_files::tree::{Facts, Kind, Tree};
use sandbox_host_git::{Index, View};

use super::error::WorkspaceError;
use super::git_follow::{self, Pointer};
use super::git_view::Views;
use super::guards::{self, Guard, OtherMount, Over};
use super::inventory::{Content, Inventory, Leaf, PRIVILEGES, content};
use super::judge;
use super::mount::Mount;
use super::protection::Protection;
use super::quarantine::{self, Quarantine};
use super::role::Role;
use super::tampered::{TamperKind, TamperedPath};

/// The clock that stamps files lags behind by one tick of the kernel.
const TICK: Duration = Duration::from_millis(20);

/// Bytes of a protected file that are compared with the version that git recorded.
const MOST_READ: u64 = 32 << 20;

/// All protected mounts of an execution.
#[derive(Debug, Default)]
pub(super) struct Watch {
    mounts: Vec<WatchedMount>,
    quarantine: PathBuf,
}

#[derive(Debug)]
struct WatchedMount {
    tree: Tree,
    protection: Protection,
    before: Inventory,
    guards: Vec<Guard>,
    /// The folder of this work tree's git index, and the index's entries for guarded paths.
    index: Option<(View, Index)>,
    /// The start of the inventory: seconds and nanoseconds since 1970.
    begun: (i64, u32),
}

/// A finding, and the time of its change.
type Finding = ((i64, u32), TamperedPath);

impl Watch {
    /// Takes the inventory of every protected mount of `mounts`, and adds the mounts that guard it.
    /// Blocks.
    pub(super) fn begin(
        mut mounts: Vec<Mount>,
        quarantine: PathBuf,
        views: &mut Views,
    ) -> Result<(Vec<Mount>, Self), WorkspaceError> {
        for mount in mounts.iter_mut().filter(|mount| mount.is_guarded() && mount.copy_dir().is_none()) {
            if let Some(own) = mount.own_part() {
                let failed = |source| WorkspaceError::new("look through", mount.host_path(), source);
                views.look_around();
                *mount = views.instead_of(mount, own).map_err(failed)?;
            }
        }
        let mut watched = Vec::new();
        let mut over = Vec::new();
        for (index, mount) in mounts.iter().enumerate() {
            let Some(protection) = mount.protection().filter(|protection| !protection.is_none()) else {
                continue;
            };
            if !mount.host_path().is_dir() || mount.copy_dir().is_some() {
                continue;
            }
            let begun = now();
            let tree = mount
                .tree()
                .map_err(|source| WorkspaceError::new("look through", mount.host_path(), source))?;
            if mount.read_only() {
                // It is not writable, but sockets accept connections from everyone who sees them.
                let sockets = Inventory::sockets_of(&tree, protection);
                over.extend(guards::cover(&tree, mount.container_path(), sockets.keys())?);
                continue;
            }
            let before = Inventory::take(&tree, protection);
            let others: Vec<OtherMount> = mounts
                .iter()
                .enumerate()
                .filter(|(other, mount)| *other != index && mount.is_writable_folder())
                .filter_map(|(_, mount)| OtherMount::new(mount))
                .collect();
            let place = mount.container_path();
            let (guards, read_only) = guards::guard(&tree, &before, protection, place, &others, views)?;
            over.extend(read_only);
            over.extend(guards::cover(&tree, place, before.sockets.keys())?);
            let index = git_dir(&tree).and_then(|git_dir| {
                let recorded = Index::of(&git_dir, |path| is_below(&guards, path))?;
                Some((git_dir, recorded))
            });
            watched.push(WatchedMount { tree, protection: protection.clone(), before, guards, index, begun });
        }
        // A path where the caller mounts something else needs no guard.
        over.retain(|over| !mounts.iter().any(|mount| is_under(over, mount)));
        for over in over {
            // Two mounts may lead to the same place of the same tree.
            if mounts.iter().all(|mount| mount.container_path() != over.mount.container_path()) {
                mounts.push(over.mount);
            }
        }
        let watch = Self { mounts: watched, quarantine };
        Ok((mounts, watch))
    }

    /// Whether no mount is protected.
    pub(super) fn is_empty(&self) -> bool {
        self.mounts.is_empty()
    }

    /// The protected mounts, on the host.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Path> {
        self.mounts.iter().map(|mount| mount.tree.path())
    }

    /// Compares, moves tampered paths away, and returns them, newest first. `import` writes to the
    /// host's repositories at the point when their work trees contain no new file that git would
    /// follow. Blocks.
    pub(super) fn end(self, import: impl FnOnce()) -> Vec<TamperedPath> {
        let quarantine = Quarantine::new(self.quarantine);
        let mut findings: Vec<Finding> =
            self.mounts.iter().flat_map(|mount| mount.clean(&quarantine)).collect();
        import();
        // This reads an index that a task wrote, which must not prevent the clean-up.
        findings.extend(self.mounts.iter().flat_map(WatchedMount::not_written));
        findings.sort_by_key(|(changed, _)| Reverse(*changed));
        findings.into_iter().map(|(_, tampered)| tampered).collect()
    }
}

fn now() -> (i64, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = since.saturating_sub(TICK);
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

/// Whether `mount` hides the place that `over`, of another mount, would cover.
fn is_under(over: &Over, mount: &Mount) -> bool {
    let (place, other) = (Path::new(over.mount.container_path()), Path::new(mount.container_path()));
    let own = over.hides.starts_with(mount.host_path());
    place == other || (!own && place.starts_with(other))
}

impl WatchedMount {
    fn clean(&self, quarantine: &Quarantine) -> Vec<Finding> {
        let proofs = || -> Vec<&Path> {
            let proofs = self.guards.iter().filter(|guard| guard.is_proof(&self.tree));
            proofs.map(|guard| guard.path.as_path()).collect()
        };
        let now = self.before.take_again(&self.tree, &self.protection, &proofs());
        // Again: folders that the task closed are open now.
        let proofs = proofs();
        let is_guarded = |path: &Path| proofs.iter().any(|guard| path.starts_with(guard));
        let mut findings = self.changed(quarantine, &now, is_guarded);
        findings.extend(self.replaced(quarantine));
        let unseen = now.closed.iter().filter(|(path, closed)| {
            closed.is_reachable && !is_guarded(path) && self.before.closed.get(*path) != Some(*closed)
        });
        findings.extend(unseen.map(|(path, closed)| {
            ((i64::MAX, 0), TamperedPath::unseen(self.tree.path().join(path), &closed.problem))
        }));
        for top in now.tops.keys().filter(|top| !self.before.tops.contains_key(*top)) {
            quarantine::remove_empty(&self.tree, top);
        }
        findings.extend(self.deleted(&now, is_guarded));
        findings.extend(self.privileged(&now));
        findings.extend(self.left_in_place(&now));
        findings
    }

    /// Moves away new and changed entries at protected paths.
    fn changed(
        &self,
        quarantine: &Quarantine,
        now: &Inventory,
        is_guarded: impl Fn(&Path) -> bool,
    ) -> Vec<Finding> {
        let copies = self.copies_of_known_files();
        now.leaves
            .iter()
            .filter(|(path, leaf)| {
                // A task with another name for the file writes past its guard.
                let one_name = |leaf: &Leaf| leaf.facts.links <= 1;
                let was_one = self.before.leaves.get(*path).is_none_or(one_name);
                let is_the_hosts = is_guarded(path) && one_name(leaf) && was_one;
                !is_the_hosts
                    && !self.is_known(path, leaf)
                    && !self.is_copy(&copies, path, leaf)
                    && !judge::is_harmless(&self.tree, &self.before, now, path, leaf)
            })
            .map(|(path, leaf)| (leaf.facts.stamp.changed, self.remove(quarantine, path)))
            .collect()
    }

    /// Moves away repositories that a task created in place of a pointer file.
    fn replaced(&self, quarantine: &Quarantine) -> Vec<Finding> {
        let pointers = self.before.leaves.keys().filter(|path| path.file_name() == Some(OsStr::new(".git")));
        pointers
            .filter_map(|path| {
                let now = self.tree.facts(path).ok()??;
                (now.kind == Kind::Folder).then(|| (now.stamp.changed, self.remove(quarantine, path)))
            })
            .collect()
    }

    fn is_known(&self, path: &Path, leaf: &Leaf) -> bool {
        self.before.leaves.get(path).is_some_and(|known| {
            known.facts.stamp == leaf.facts.stamp
                || (same_rights(&known.facts, &leaf.facts)
                    && known.content.is_some()
                    && known.content == content(&self.tree, path, &leaf.facts))
        })
    }

    /// Files, by name, that a work tree of the same commit has too.
    fn copies_of_known_files(&self) -> BTreeMap<&OsStr, Vec<&Leaf>> {
        let mut copies: BTreeMap<&OsStr, Vec<&Leaf>> = BTreeMap::new();
        for (path, leaf) in &self.before.leaves {
            let is_copied = matches!(leaf.role, Role::Hooks | Role::Listed | Role::Program | Role::Modules);
            if let (true, Some(Content::File(_)), Some(name)) = (is_copied, &leaf.content, path.file_name()) {
                copies.entry(name).or_default().push(leaf);
            }
        }
        copies
    }

    /// Whether it is a new copy of an entry that was protected before.
    fn is_copy(&self, copies: &BTreeMap<&OsStr, Vec<&Leaf>>, path: &Path, leaf: &Leaf) -> bool {
        let known = path.file_name().and_then(|name| copies.get(name));
        let known = known.filter(|_| !self.before.leaves.contains_key(path) && leaf.facts.kind == Kind::File);
        known.into_iter().flatten().any(|known| {
            known.role == leaf.role
                && known.facts.size == leaf.facts.size
                && same_rights(&known.facts, &leaf.facts)
                && known.content == content(&self.tree, path, &leaf.facts)
        })
    }

    fn remove(&self, quarantine: &Quarantine, path: &Path) -> TamperedPath {
        let moved = quarantine.take(&self.tree, path);
        let before = self.before.leaves.get(path);
        let restored = moved.is_ok()
            && before.is_some_and(|before| quarantine::restore(&self.tree, path, before).is_ok());
        TamperedPath::new(self.tree.path().join(path), moved, restored)
    }

    /// Restores entries removed from protected paths, unless their folder was removed too: then
    /// that is ordinary work.
    fn deleted(&self, now: &Inventory, is_guarded: impl Fn(&Path) -> bool) -> Vec<Finding> {
        let is_missing = |path: &Path| matches!(self.tree.facts(path), Ok(None));
        let is_gone = |(path, leaf): &(&PathBuf, &Leaf)| {
            let matters = match leaf.role {
                Role::Hooks => !judge::is_sample(path),
                Role::Configuration | Role::Listed | Role::Program => true,
                Role::Pointer | Role::Modules | Role::GitFile => false,
            };
            let top = path.ancestors().find(|part| self.before.tops.contains_key(*part));
            let around = top.and_then(Path::parent).unwrap_or(Path::new(""));
            let is_around = around.as_os_str().is_empty()
                || matches!(self.tree.facts(around), Ok(Some(facts)) if facts.kind == Kind::Folder);
            matters && !now.leaves.contains_key(*path) && !is_guarded(path) && is_missing(path) && is_around
        };
        let restored = |(path, leaf): (&PathBuf, &Leaf)| {
            let restored = quarantine::restore(&self.tree, path, leaf);
            ((i64::MAX, 0), TamperedPath::deleted(self.tree.path().join(path), restored))
        };
        self.before.leaves.iter().filter(is_gone).map(restored).collect()
    }

    /// Removes set-user-id and set-group-id bits that the task set.
    fn privileged(&self, now: &Inventory) -> Vec<Finding> {
        let is_new = |(path, facts): &(&PathBuf, &Facts)| {
            if facts.kind == Kind::File {
                return facts.stamp.changed >= self.begun;
            }
            // Entries created in a folder with set-group-id inherit it.
            let is_inherited = path.parent().is_some_and(|parent| now.privileged.contains_key(parent));
            !is_inherited && !self.before.privileged.values().any(|known| known.is_same_file(facts))
        };
        let revoke = |(path, facts): (&PathBuf, &Facts)| {
            let revoked = match self.tree.revoke(path, PRIVILEGES) {
                // It has just been moved away, or belongs to the user, who works here too.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                revoked => revoked,
            };
            let tampered = TamperedPath::privileged(self.tree.path().join(path), revoked);
            Some((facts.stamp.changed, tampered))
        };
        now.privileged.iter().filter(is_new).filter_map(revoke).collect()
    }

    /// Files that git would have changed if they were not mounted read-only.
    fn not_written(&self) -> Vec<Finding> {
        let Some((git_dir, before)) = &self.index else {
            return Vec::new();
        };
        let now = Index::of(git_dir, |path| is_below(&self.guards, path)).unwrap_or_default();
        // Such as an entry that is only intended to be added.
        let is_there = |path: &Path| {
            let mut content = Vec::new();
            let read = self.tree.file(path).and_then(|file| file.take(MOST_READ).read_to_end(&mut content));
            read.is_ok() && now.records(path, &content)
        };
        let left = |path| TamperedPath::left(self.tree.path().join(path), TamperKind::NotWritten);
        let differing = now.differing(before).into_iter().filter(|path| !is_there(path));
        differing.map(|path| ((i64::MAX, 0), left(path))).collect()
    }

    /// Entries that are only reported.
    fn left_in_place(&self, now: &Inventory) -> Vec<Finding> {
        let sockets = now
            .sockets
            .iter()
            .filter(|(path, _)| !self.before.sockets.contains_key(*path) && !now.leaves.contains_key(*path))
            .map(|(path, stamp)| (stamp.changed, path, TamperKind::Socket));
        let inputs = now
            .inputs
            .iter()
            .filter(|(path, input)| {
                self.before.inputs.get(*path).is_none_or(|known| {
                    known.facts.stamp != input.facts.stamp
                        && (known.content.is_none()
                            || known.content != content(&self.tree, path, &input.facts))
                })
            })
            .map(|(path, input)| (input.facts.stamp.changed, path, TamperKind::ToolInput(input.tool)));
        sockets
            .chain(inputs)
            .map(|(changed, path, kind)| (changed, TamperedPath::left(self.tree.path().join(path), kind)))
            .collect()
    }
}

/// The folder with git's index of the work tree `tree`.
fn git_dir(tree: &Tree) -> Option<View> {
    let folder = match git_follow::repository_of(tree, Path::new(""))? {
        Pointer::Inside(folder) => tree.inner(&folder),
        Pointer::Outside(folder) => Tree::open(&folder),
    };
    folder.ok().map(View::whole)
}

fn is_below(guards: &[Guard], path: &Path) -> bool {
    guards.iter().any(|guard| path.starts_with(&guard.path))
}

fn same_rights(one: &Facts, other: &Facts) -> bool {
    one.kind == other.kind && one.mode & 0o111 == other.mode & 0o111
}

#[cfg(test)]
mod tests;
