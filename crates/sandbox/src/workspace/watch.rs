//! Keeps a protected mount as it was: read-only mounts over what is there, and a comparison after the run.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::spec::Mount;

use super::error::WorkspaceError;
use super::git_config;
use super::inventory::{Inventory, Leaf, Role, text};
use super::planted::Planted;
use super::protection::Protection;
use super::quarantine::{self, Quarantine};
use super::tree::{Kind, Tree};

/// An engine mounts each one by one; what is beyond is compared after the run.
const MOST_GUARDS: usize = 100;

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
}

/// Something that is mounted read-only over itself.
#[derive(Debug)]
struct Guard {
    path: PathBuf,
    inode: u64,
    /// Open, so that nothing else gets its number.
    _held: OwnedFd,
}

impl Watch {
    /// Takes the inventory of every protected mount of `mounts`, and adds to them what guards it. Blocks.
    pub(super) fn begin(
        mut mounts: Vec<Mount>,
        quarantine: PathBuf,
    ) -> Result<(Vec<Mount>, Self), WorkspaceError> {
        let mut watched = Vec::new();
        let mut guards = Vec::new();
        for mount in mounts.iter().filter(|mount| mount.is_writable_folder()) {
            let Some(protection) = mount.protection().filter(|protection| !protection.is_none()) else {
                continue;
            };
            let failed = |source| WorkspaceError::new("look through", mount.host_path(), source);
            // The engine mounts what the path leads to.
            let path = mount.host_path().canonicalize().map_err(failed)?;
            let tree = Tree::open(&path).map_err(failed)?;
            let before = Inventory::take(&tree, protection);
            let (held, read_only) = hold(&tree, &before, protection, mount.container_path());
            guards.extend(read_only);
            watched.push(WatchedMount {
                tree,
                protection: protection.clone(),
                before,
                guards: held,
            });
        }
        // Where the caller mounts something else, there is nothing to guard.
        guards.retain(|guard: &Mount| !mounts.iter().any(|mount| is_under(guard, mount)));
        mounts.extend(guards);
        let watch = Self {
            mounts: watched,
            quarantine,
        };
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

    /// Compares, moves what was planted out of the way, and tells what it was. Blocks.
    pub(super) fn end(self) -> Vec<Planted> {
        let quarantine = Quarantine::new(self.quarantine);
        self.mounts
            .iter()
            .flat_map(|mount| mount.clean(&quarantine))
            .collect()
    }
}

/// Whether `mount` hides what `guard`, of another mount, would be over.
fn is_under(guard: &Mount, mount: &Mount) -> bool {
    let (place, other) = (
        Path::new(guard.container_path()),
        Path::new(mount.container_path()),
    );
    let own = guard.host_path().starts_with(mount.host_path());
    place == other || (!own && place.starts_with(other))
}

/// What is mounted over a protected mount: the guards, and the `.git` that they are in, which then cannot be renamed.
fn hold(
    tree: &Tree,
    before: &Inventory,
    protection: &Protection,
    container_path: &str,
) -> (Vec<Guard>, Vec<Mount>) {
    let target = |path: &Path| {
        let text = path.to_str()?;
        (!text.contains([':', ',', '\0'])).then(|| format!("{}/{text}", container_path.trim_end_matches('/')))
    };
    let mut guards = Vec::new();
    let mut mounts = Vec::new();
    for (path, top) in &before.tops {
        let plain = matches!(top.kind, Kind::File | Kind::Folder);
        if !plain || !is_guarded(path, protection) || guards.len() == MOST_GUARDS {
            continue;
        }
        if let (Some(target), Ok(guard)) = (target(path), Guard::open(tree, path)) {
            mounts.push(Mount::read_only_at(tree.path().join(path), target));
            guards.push(guard);
        }
    }
    let git = Path::new(".git");
    if guards
        .iter()
        .any(|guard| guard.path.starts_with(git) && guard.path != git)
        && let Some(target) = target(git)
    {
        mounts.push(Mount::read_write(tree.path().join(git), target));
    }
    (guards, mounts)
}

/// What lies deeper is often made and removed as a whole, by package managers for one, and a mount would keep it there.
fn is_guarded(path: &Path, protection: &Protection) -> bool {
    let mut parts = path.components();
    let first = parts.next();
    first == Some(Component::Normal(".git".as_ref())) || parts.next().is_none() || protection.names(path)
}

impl Guard {
    fn open(tree: &Tree, path: &Path) -> io::Result<Self> {
        let held = tree.held(path)?;
        let inode = statx(&held, "", AtFlags::EMPTY_PATH, StatxFlags::INO)?.stx_ino;
        Ok(Self {
            path: path.to_owned(),
            inode,
            _held: held,
        })
    }

    /// Whether it is still where it was. A program of the host that replaced it took the mount away with it.
    fn stands(&self, tree: &Tree) -> bool {
        matches!(tree.facts(&self.path), Ok(Some(facts)) if facts.stamp.inode == self.inode)
    }
}

impl WatchedMount {
    fn clean(&self, quarantine: &Quarantine) -> Vec<Planted> {
        let now = self.before.take_again(&self.tree, &self.protection);
        let standing: Vec<&Path> = self
            .guards
            .iter()
            .filter(|guard| guard.stands(&self.tree))
            .map(|guard| guard.path.as_path())
            .collect();
        let is_guarded = |path: &Path| standing.iter().any(|guard| path.starts_with(guard));
        let mut planted: Vec<Planted> = now
            .leaves
            .iter()
            .filter(|(path, leaf)| {
                !is_guarded(path) && !self.is_known(path, leaf) && !self.is_harmless(&now, path, leaf)
            })
            .map(|(path, leaf)| self.remove(quarantine, path, leaf))
            .collect();
        let unseen = now.closed.iter().filter(|(path, closed)| {
            closed.is_reachable && !is_guarded(path) && self.before.closed.get(*path) != Some(*closed)
        });
        planted.extend(
            unseen.map(|(path, closed)| Planted::unseen(self.tree.path().join(path), &closed.problem)),
        );
        for top in now.tops.keys().filter(|top| !self.before.tops.contains_key(*top)) {
            quarantine::remove_empty(&self.tree, top);
        }
        planted
    }

    fn is_known(&self, path: &Path, leaf: &Leaf) -> bool {
        self.before
            .leaves
            .get(path)
            .is_some_and(|known| known.facts.stamp == leaf.facts.stamp)
    }

    fn is_harmless(&self, now: &Inventory, path: &Path, leaf: &Leaf) -> bool {
        if leaf.facts.kind != Kind::File {
            return false;
        }
        match leaf.role {
            Role::Hooks => path.extension().is_some_and(|extension| extension == "sample"),
            Role::Configuration => {
                let known = self
                    .before
                    .leaves
                    .get(path)
                    .map_or("", |known| known.text.as_str());
                // An empty text is also what could not be read.
                text(&self.tree, path).is_some_and(|text| git_config::is_harmless(&text, known))
            }
            Role::Link => self
                .leads_to(path)
                .is_some_and(|folder| now.repositories.contains(&folder)),
            Role::Listed => false,
        }
    }

    /// The folder of this tree that a `.git` file or a `commondir` names, where the way there has no links.
    fn leads_to(&self, path: &Path) -> Option<PathBuf> {
        let text = text(&self.tree, path)?;
        let named = text.strip_prefix("gitdir:").unwrap_or(&text).trim();
        let mut folder = path.parent()?.to_owned();
        let mut below = false;
        for part in Path::new(named).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir if !below => {
                    if !folder.pop() {
                        return None;
                    }
                }
                Component::Normal(name) => {
                    below = true;
                    folder.push(name);
                }
                _ => return None,
            }
        }
        self.tree.folder(&folder).ok().map(|_| folder)
    }

    fn remove(&self, quarantine: &Quarantine, path: &Path, leaf: &Leaf) -> Planted {
        let moved = quarantine.take(&self.tree, path);
        let before = self.before.leaves.get(path);
        let restored = moved.is_ok()
            && leaf.role == Role::Configuration
            && before.is_some_and(|before| quarantine::restore(&self.tree, path, before).is_ok());
        Planted::new(self.tree.path().join(path), moved, restored)
    }
}

#[cfg(test)]
mod tests;
