//! Mounts over a protected mount when a task starts: views of its repositories, and read-only
//! mounts over the rest.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use sandbox_files::tree::{Kind, Tree};

use sandbox_files::host_path::Identity;

use super::error::WorkspaceError;
use super::git_view::{self, Found, Views};
use super::inventory::{Inventory, is_in_packages};
use super::mount::Mount;
use super::protection::Protection;
use super::role::Role;

/// An engine mounts each separately; further paths are compared after the run.
const MOST_GUARDS: usize = 100;
/// Views of repositories: a task can create any number for the next one. Further repositories are
/// mounted read-only.
const MOST_VIEWS: usize = 50;
/// Repositories in one tree. With more of them, a task could write in some.
const MOST_REPOSITORIES: usize = 500;
/// The source of mounts over sockets, where connecting then fails, and over paths whose existence
/// git checks.
const NOTHING: &str = "/dev/null";

/// A path that is mounted read-only over itself.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) path: PathBuf,
    identity: Identity,
    /// Whether another writable mount of the task leads there too.
    has_other_way: bool,
    /// Kept open so that its inode number is not reused.
    _held: OwnedFd,
}

/// A mount over a part of another one.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) mount: Mount,
    /// The host path that it hides.
    pub(super) hides: PathBuf,
}

/// Another folder that the task can write in.
#[derive(Debug)]
pub(super) struct OtherMount {
    identity: Identity,
    host_path: PathBuf,
    container_path: String,
}

impl OtherMount {
    pub(super) fn new(mount: &Mount) -> Option<Self> {
        let host_path = mount.host_path().canonicalize().ok()?;
        Some(Self {
            identity: identity(&host_path)?,
            host_path,
            container_path: mount.container_path().to_owned(),
        })
    }
}

/// Mounts over a protected mount at `container_path`: `views` of repositories, and guards, each
/// also at the places in `others` that lead to the same path.
///
/// # Errors
///
/// If the engine cannot be given the path of a guard, or there are too many repositories.
pub(super) fn guard(
    tree: &Tree,
    before: &Inventory,
    protection: &Protection,
    container_path: &str,
    others: &[OtherMount],
    views: &mut Views,
) -> Result<(Vec<Guard>, Vec<Over>), WorkspaceError> {
    let (mut guards, mut mounts, mut beyond) = (Vec::new(), Vec::new(), 0);
    let repositories = repositories(tree, before);
    if repositories.len() > MOST_REPOSITORIES {
        let count = repositories.len();
        return Err(WorkspaceError::TooManyRepositories {
            tree: tree.path().to_owned(),
            count,
            most: MOST_REPOSITORIES,
        });
    }
    if let Some((first, _)) = repositories.get(MOST_VIEWS) {
        tracing::warn!(
            first = %tree.path().join(first).display().to_string().escape_debug(),
            "the task cannot write to {} of {} repositories: it has views of the {MOST_VIEWS} nearest to the top",
            repositories.len() - MOST_VIEWS, repositories.len()
        );
    }
    // Only now: another execution that created one of these has announced its trees before.
    views.look_around();
    for (path, found) in repositories {
        let target = target(tree, container_path, &path)?;
        let Ok(mut guard) = Guard::open(tree, &path) else {
            continue;
        };
        let mount = if guards.len() < MOST_VIEWS {
            let Ok(mount) = views.over(tree, &path, found, &target) else {
                continue;
            };
            mount
        } else {
            Mount::read_only_at(tree.path().join(&path), target).of(guard.identity)
        };
        mounts.push(Over { mount, hides: tree.path().join(&path) });
        guard.elsewhere(tree, others, &mut mounts);
        guards.push(guard);
    }
    // Repositories come first, since one without a guard would be writable as a whole. Paths inside
    // them need no guard of their own.
    let viewed: Vec<PathBuf> = guards.iter().map(|guard| guard.path.clone()).collect();
    for path in by_importance(before, protection) {
        if viewed.iter().any(|view| path.starts_with(view)) {
            continue;
        }
        if mounts.len() >= MOST_GUARDS + viewed.len() {
            beyond += 1;
            continue;
        }
        let Ok(mut guard) = Guard::open(tree, path) else {
            continue;
        };
        let full = tree.path().join(path);
        let target = target(tree, container_path, path)?;
        let mount = Mount::read_only_at(&full, target).of(guard.identity);
        mounts.push(Over { mount, hides: full });
        guard.elsewhere(tree, others, &mut mounts);
        guards.push(guard);
    }
    if beyond > 0 {
        tracing::warn!(
            tree = %tree.path().display(),
            "{beyond} protected paths are compared after the run instead of being mounted read-only: at most {MOST_GUARDS} are mounted"
        );
    }
    Ok((guards, mounts))
}

/// The repository folders that a task gets views of, those near the top first, and the repositories
/// in each with their work trees.
fn repositories(tree: &Tree, before: &Inventory) -> Vec<(PathBuf, Vec<Found>)> {
    let is_there = |path: &Path| matches!(tree.facts(path), Ok(Some(_)));
    let heads = before.repositories.iter().map(|folder| folder.join("HEAD")).filter(|head| is_there(head));
    let folders = before.repositories.iter().chain(before.tops.keys());
    let pointers = folders.filter(|path| path.ends_with(".git")).cloned();
    let names: Vec<PathBuf> = pointers.chain(heads).collect();
    let mut all: BTreeMap<(usize, PathBuf), Vec<Found>> = BTreeMap::new();
    for (path, work_tree) in git_view::find(tree, names.iter().map(PathBuf::as_path), is_there) {
        let Some(depth) = path.iter().position(|part| part == ".git") else { continue };
        let top: PathBuf = path.iter().take(depth + 1).collect();
        all.entry((depth, top)).or_default().push((path, work_tree));
    }
    all.into_iter().map(|((_, top), found)| (top, found)).collect()
}

/// Covers the Unix sockets of a mount, whose other ends are host programs.
///
/// # Errors
///
/// If the engine cannot be given the path of one.
pub(super) fn cover<'a>(
    tree: &Tree,
    container_path: &str,
    sockets: impl Iterator<Item = &'a PathBuf>,
) -> Result<Vec<Over>, WorkspaceError> {
    let mut covers = Vec::new();
    for socket in sockets {
        let target = target(tree, container_path, socket)?;
        match nothing_at(&target) {
            Some(mount) if covers.len() < MOST_GUARDS => {
                covers.push(Over { mount, hides: tree.path().join(socket) });
            }
            _ => tracing::warn!(
                socket = %socket.display().to_string().escape_debug(),
                "the task can connect to this socket: it cannot be covered"
            ),
        }
    }
    Ok(covers)
}

/// The container path of `path` in `tree`. The engine takes paths as JSON, which must be UTF-8.
fn target(tree: &Tree, container_path: &str, path: &Path) -> Result<String, WorkspaceError> {
    inside(container_path, path).ok_or_else(|| {
        let problem = "its name is not UTF-8, so the engine cannot mount anything over it; rename it, or work on a copy";
        WorkspaceError::new("guard", &tree.path().join(path), io::Error::new(io::ErrorKind::InvalidFilename, problem))
    })
}

fn inside(container_path: &str, path: &Path) -> Option<String> {
    path.to_str().map(|text| format!("{}/{text}", container_path.trim_end_matches('/')))
}

/// The paths to guard. Those that the caller named come first, so that a task's files cannot take
/// their places.
fn by_importance<'a>(before: &'a Inventory, protection: &Protection) -> Vec<&'a PathBuf> {
    let mut paths: Vec<(u8, &PathBuf)> = before
        .tops
        .iter()
        .filter(|(_, top)| matches!(top.kind, Kind::File | Kind::Folder))
        .filter(|(_, top)| !matches!(top.role, Role::Modules | Role::GitFile))
        .filter_map(|(path, top)| Some((importance(before, protection, path, top.role)?, path)))
        .collect();
    paths.sort();
    paths.into_iter().map(|(_, path)| path).collect()
}

/// Deep paths are often created and removed with a whole folder, for example by package managers,
/// and a mount would prevent that.
fn importance(before: &Inventory, protection: &Protection, path: &Path, role: Role) -> Option<u8> {
    let is_at_the_top = path.components().nth(1).is_none();
    let is_rules = path.file_name().is_some_and(|name| name == ".sandbox" || name == ".airut");
    if is_at_the_top && (is_rules || protection.is_named(path)) || protection.is_path(path) {
        Some(0)
    } else if role == Role::Pointer && !is_at_the_top {
        // Submodules come and go.
        None
    } else if is_at_the_top {
        Some(1)
    } else if is_rules || before.followed.contains_key(path) {
        Some(2)
    } else {
        let is_of_repository = matches!(role, Role::Hooks | Role::Configuration);
        let folder = path.parent().unwrap_or(Path::new(""));
        (is_of_repository && !is_in_packages(folder, OsStr::new(""))).then_some(3)
    }
}

/// Other container paths at which `path` of `tree` is writable: `None` for a mount of something in
/// it, whose place cannot be guarded.
fn other_places(tree: &Tree, path: &Path, others: &[OtherMount]) -> Vec<Option<(PathBuf, String)>> {
    let full = tree.path().join(path);
    let mut places = Vec::new();
    for other in others {
        let above = full
            .ancestors()
            .find(|part| identity(part) == Some(other.identity))
            .and_then(|part| full.strip_prefix(part).ok());
        if let Some(inner) = above {
            let place = if inner.as_os_str().is_empty() {
                None
            } else {
                inside(&other.container_path, inner).map(|target| (other.host_path.join(inner), target))
            };
            places.push(place);
            continue;
        }
        let own = identity(&full);
        if own.is_some() && other.host_path.ancestors().any(|part| identity(part) == own) {
            places.push(None);
        }
    }
    places
}

/// A mount at `target` that makes it unusable.
pub(super) fn nothing_at(target: &str) -> Option<Mount> {
    Some(Mount::read_only_at(NOTHING, target).of(identity(Path::new(NOTHING))?))
}

fn identity(path: &Path) -> Option<Identity> {
    let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO).ok()?;
    Some(Identity::from(&found))
}

impl Guard {
    fn open(tree: &Tree, path: &Path) -> io::Result<Self> {
        let held = tree.held(path)?;
        Ok(Self { path: path.to_owned(), identity: Identity::of(&held)?, has_other_way: false, _held: held })
    }

    /// Adds mounts at the places in `others` that lead to the same path.
    fn elsewhere(&mut self, tree: &Tree, others: &[OtherMount], mounts: &mut Vec<Over>) {
        let full = tree.path().join(&self.path);
        for place in other_places(tree, &self.path, others) {
            self.has_other_way = true;
            mounts.extend(place.map(|(hides, target)| Over {
                mount: Mount::read_only_at(&full, target).of(self.identity),
                hides,
            }));
        }
    }

    /// Whether only a host program can have changed it: it is still in its place, and there is no
    /// other way to it. A host program that replaced it removed the mount with it.
    pub(super) fn is_proof(&self, tree: &Tree) -> bool {
        let now = tree.held(&self.path).and_then(Identity::of);
        !self.has_other_way && now.is_ok_and(|now| now == self.identity)
    }
}
