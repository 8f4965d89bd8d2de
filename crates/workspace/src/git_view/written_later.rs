//! Protected files of which git has versions that the work tree does not: the host's `git stash` or
//! `git checkout` writes them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use sandbox_files::tree::{Kind, Tree};
use sandbox_host_git::{Recorded, Version};

use super::super::inventory::{Protected, makes_repository, protected};
use super::super::protection::Protection;
use super::super::role::Role;

/// Bytes of a file: no version of a longer one is recognised.
const MOST_READ: u64 = 16 << 20;
/// Names in a hint.
const LISTED: usize = 5;

/// The hint about such files in the folder `work_tree` of `tree`, if there are any. `follows` knows
/// the paths that the host's configuration names.
pub(crate) fn hint(
    tree: &Tree,
    work_tree: &Path,
    recorded: &Recorded,
    protection: &Protection,
    follows: impl Fn(&Path) -> bool,
) -> Option<String> {
    if !recorded.is_whole() {
        return Some(
            "git in the task recorded more files or stashes than can be compared: protected files \
             may be among them, which `git stash` or `git checkout` would write"
                .to_owned(),
        );
    }
    let folders = Folders::of(tree, work_tree, recorded, protection);
    let is_later = |path: &&Path| {
        let place = work_tree.join(path);
        (follows(&place) || folders.protect(&place)) && !recorded.is(path, &version(tree, &place))
    };
    let later: Vec<String> = recorded
        .paths()
        .filter(is_later)
        .take(LISTED + 1)
        .map(|path| format!("`{}`", path.display().to_string().escape_debug()))
        .collect();
    let listed = later.get(..LISTED).unwrap_or(&later).join(", ");
    let more = if later.len() > LISTED { ", …" } else { "" };
    (!later.is_empty()).then(|| {
        format!(
            "git in the task recorded protected files in versions that are not in the work tree, which \
             `git stash` or `git checkout` would write there: {listed}{more}"
        )
    })
}

/// The protected entries of each folder, as if git wrote everything that it recorded next to the
/// existing files.
struct Folders(BTreeMap<PathBuf, Protected>);

impl Folders {
    fn of(tree: &Tree, work_tree: &Path, recorded: &Recorded, protection: &Protection) -> Self {
        let mut folders: BTreeMap<PathBuf, BTreeMap<OsString, Kind>> = BTreeMap::new();
        for path in recorded.paths() {
            let mut kind = Kind::File;
            for (folder, name) in steps(&work_tree.join(path)) {
                let known = folders
                    .entry(folder.to_owned())
                    .or_insert_with(|| tree.list(folder).unwrap_or_default().into_iter().collect());
                known.insert(name, kind);
                kind = Kind::Folder;
            }
        }
        let judged = folders.into_iter().map(|(folder, names)| {
            let judged = protected(protection, &folder, &names.into_iter().collect::<Vec<_>>());
            (folder, judged)
        });
        Self(judged.collect())
    }

    /// Whether `path`, or a folder that contains it, is protected. The content of `.gitmodules`
    /// runs nothing.
    fn protect(&self, path: &Path) -> bool {
        steps(path).any(|(folder, name)| {
            self.0.get(folder).is_some_and(|judged| {
                judged.roles.get(&name).is_some_and(|role| *role != Role::Modules)
                    || judged.is_repository && makes_repository(&name)
            })
        })
    }
}

/// The folders that contain `path`, with the name in each, from the innermost.
fn steps(path: &Path) -> impl Iterator<Item = (&Path, OsString)> {
    path.ancestors().filter_map(|part| Some((part.parent()?, part.file_name()?.to_owned())))
}

fn version(tree: &Tree, path: &Path) -> Version {
    let Ok(facts) = tree.facts(path) else { return Version::Other };
    let Some(facts) = facts else { return Version::None };
    let read = || {
        let mut content = Vec::new();
        tree.file(path)?.take(MOST_READ).read_to_end(&mut content).map(|_| content)
    };
    match facts.kind {
        Kind::File => {
            read().map_or(Version::Other, |content| Version::File(content, facts.mode & 0o100 != 0))
        }
        Kind::Link => {
            let target = tree.target(path).map(|target| target.into_os_string().into_vec());
            target.map_or(Version::Other, Version::Link)
        }
        Kind::Folder | Kind::Special => Version::Other,
    }
}
